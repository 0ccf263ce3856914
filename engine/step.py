"""The metadata of one forward pass on its device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from .host_step import HostStep, SequenceWork, StepArrays, lay_out
from .kv_cache import pages_for


@dataclass(frozen=True, slots=True)
class DecodeGroup:
    """Decodes that share one attention call: rows first_row .. first_row + count of the pass."""

    first_row: int
    count: int
    longest: int  # longest context, the new token included
    contexts: torch.Tensor  # (count,)
    block_table: torch.Tensor  # (count, pages of the longest)


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """One chunk: rows first_row .. first_row + tokens of the pass, the last of `length` KV tokens."""

    first_row: int
    tokens: int
    length: int  # prefix and chunk
    block_table: torch.Tensor  # (pages,)


@dataclass(frozen=True, slots=True)
class Step:
    """One forward pass; all tensors are views of one int64 buffer on the device."""

    arrays: StepArrays[torch.Tensor]
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
    return step_from(batch, host_buffer(batch, device).to(device, non_blocking=True))


def host_buffer(batch: HostStep, device: torch.device) -> torch.Tensor:
    """The arrays of `batch` one after the other, in memory from which a copy to `device` need not wait."""
    buffer = torch.from_numpy(np.concatenate(batch.arrays))
    return buffer.pin_memory() if device.type == "cuda" else buffer


def split_buffer(buffer: torch.Tensor, sizes: StepArrays[int]) -> StepArrays[torch.Tensor]:
    """Views of the front of `buffer`, one array after the other, of `sizes` entries."""
    return StepArrays(*torch.split(buffer[: sum(sizes)], list(sizes)))


def step_from(batch: HostStep, buffer: torch.Tensor) -> Step:
    """The step of `batch`, whose `host_buffer` lies at the front of `buffer` on the device."""
    arrays = split_buffer(buffer, StepArrays(*map(len, batch.arrays)))
    decodes = sum(count for _, count, _ in batch.groups)

    def table(sequence: int, entries: int) -> torch.Tensor:
        first = int(batch.arrays.page_starts[sequence])
        return arrays.pages[first : first + entries]

    groups = tuple(
        DecodeGroup(
            first,
            count,
            longest,
            arrays.lengths[first : first + count],
            table(first, count * pages_for(longest)).view(count, -1),
        )
        for first, count, longest in batch.groups
    )
    chunks = tuple(
        ChunkRows(row, tokens, length, table(decodes + index, pages_for(length)))
        for index, (row, tokens, length) in enumerate(batch.chunks)
    )
    return Step(arrays, groups, chunks)
