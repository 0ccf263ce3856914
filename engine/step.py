"""What one forward pass needs to know about its batch, on its device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from .host_step import HostStep, SequenceWork, lay_out
from .kv_cache import pages_for


@dataclass(frozen=True, slots=True)
class DecodeGroup:
    """Decodes that share one attention call. Rows first_row .. first_row + count of the pass."""

    first_row: int
    count: int
    longest: int  # context of the longest, own token included
    contexts: torch.Tensor  # (count,)
    block_table: torch.Tensor  # (count, pages of the longest)


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """One chunk: rows first_row .. first_row + tokens of the pass, at the end of `length` KV tokens."""

    first_row: int
    tokens: int
    length: int  # prefix and chunk
    block_table: torch.Tensor  # (pages,)


@dataclass(frozen=True, slots=True)
class Step:
    """One forward pass on its device; all tensors are int64 views of one buffer.

    lengths, first_rows and page_starts say of all sequences, in the order of their rows, what `decodes` and
    `chunks` say of each: kernels that take every decode (or chunk) at once read these.
    """

    token_ids: torch.Tensor  # (tokens,)
    positions: torch.Tensor  # (tokens,)
    slots: torch.Tensor  # (tokens,) where each token's key and value are written
    sample_rows: torch.Tensor  # (sequences,) last row of each sequence, in the caller's order
    lengths: torch.Tensor  # (sequences,) tokens with the new ones
    first_rows: torch.Tensor  # (sequences + 1,)
    page_starts: torch.Tensor  # (sequences,) where each block table begins in `pages`
    pages: torch.Tensor  # block tables one after the other
    decodes: tuple[DecodeGroup, ...]
    chunks: tuple[ChunkRows, ...]


def build_step(
    decodes: Sequence[SequenceWork],
    chunks: Sequence[SequenceWork],
    *,
    vocab_size: int,
    pages: int,
    device: torch.device,
) -> Step:
    """The metadata of one mixed batch, sent to `device` in one copy that does not wait. Raises as `lay_out`."""
    return send(lay_out(decodes, chunks, vocab_size=vocab_size, pages=pages), device)


def send(batch: HostStep, device: torch.device) -> Step:
    """`batch` on `device`, in one copy that does not wait."""
    return views(batch, host_buffer(batch, device).to(device, non_blocking=True))


def host_buffer(batch: HostStep, device: torch.device) -> torch.Tensor:
    """The arrays of `batch` one after the other, where a copy to `device` need not wait."""
    buffer = torch.from_numpy(np.concatenate(batch.arrays))
    return buffer.pin_memory() if device.type == "cuda" else buffer


def views(batch: HostStep, buffer: torch.Tensor) -> Step:
    """The step whose `host_buffer` the device's `buffer` begins with."""
    sizes = [len(array) for array in batch.arrays]
    token_ids, positions, slots, sample_rows, lengths, first_rows, page_starts, pages = torch.split(
        buffer[: sum(sizes)], sizes
    )
    decodes = sum(count for _, count, _ in batch.groups)

    def table(sequence: int, entries: int) -> torch.Tensor:
        first = int(batch.page_starts[sequence])
        return pages[first : first + entries]

    return Step(
        token_ids,
        positions,
        slots,
        sample_rows,
        lengths,
        first_rows,
        page_starts,
        pages,
        tuple(
            DecodeGroup(
                first,
                count,
                longest,
                lengths[first : first + count],
                table(first, count * pages_for(longest)).view(count, -1),
            )
            for first, count, longest in batch.groups
        ),
        tuple(
            ChunkRows(row, tokens, length, table(decodes + index, pages_for(length)))
            for index, (row, tokens, length) in enumerate(batch.chunks)
        ),
    )
