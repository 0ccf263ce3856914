"""The metadata of a mixed batch on the host, built from plain lists in each iteration.

Rows of the pass: first the decodes by falling context, so that decodes of similar length are neighbours and share one
padded attention call, then the chunks in the given order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from ..files.errors import UsageError
from .kv_cache import PAGE_SIZE, pages_for

# A group of decodes is padded to its longest context. A shorter decode joins while the padding stays
# under a quarter of that (or under 128 tokens, where one more call costs more than the padding) ...
PADDING_SHARE = 4
PADDING_TOKENS = 128
# ... and while the gathered keys of the group stay small (134 MB for a layer of an 8B model).
GROUP_TOKENS = 1 << 16
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SequenceWork:
    """One sequence's share of an iteration.

    token_ids: tokens computed now (one for a decode), a sequence or an int64 tensor on the CPU.
    start: tokens of the sequence already in the KV cache, and so the position of the first new token.
    pages: block table: page ids that cover start + len(token_ids) tokens, a list or an int64 array.
    """

    token_ids: Sequence[int] | torch.Tensor
    start: int
    pages: Sequence[int] | NDArray[np.int64]


class StepArrays(NamedTuple, Generic[T]):
    """One value for each array of a batch, in the order in which the arrays lie in one buffer.

    T: NumPy arrays on the host, tensors on the device, or their lengths. Sequences come in the order of their rows;
    kernels that take all decodes (or all chunks) at once read lengths, first_rows, page_starts and pages.
    """

    token_ids: T  # (tokens,)
    positions: T  # (tokens,)
    slots: T  # (tokens,) where each token's key and value are written
    sample_rows: T  # (sequences,) last row of each sequence, in the caller's order
    lengths: T  # (sequences,) tokens with the new ones
    first_rows: T  # (sequences + 1,)
    page_starts: T  # (sequences,) where each block table begins in `pages`
    pages: T  # block tables one after the other


@dataclass(frozen=True, slots=True)
class HostStep:
    """A batch on the host. groups: (first row, decodes, longest context), chunks: (first row, tokens, length)."""

    arrays: StepArrays[NDArray[np.int64]]
    groups: tuple[tuple[int, int, int], ...]
    chunks: tuple[tuple[int, int, int], ...]


def lay_out(
    decodes: Sequence[SequenceWork], chunks: Sequence[SequenceWork], *, vocab_size: int, pages: int
) -> HostStep:
    """The metadata of one mixed batch on the host.

    Raises UsageError for an empty batch, a decode that does not have exactly one token, a negative start,
    too few pages, and token or page ids out of range (on a GPU those would end the process).
    """
    _check_batch(decodes, chunks)
    order = sorted(range(len(decodes)), key=lambda index: -decodes[index].start)
    ordered = [decodes[index] for index in order]
    groups = decode_groups([work.start + 1 for work in ordered])
    decode_tables = [_padded_table(ordered[first : first + count]) for first, count in groups]
    tables = [np.asarray(work.pages[: pages_for(work.start + len(work.token_ids))]) for work in chunks]
    token_ids, positions, slots = _new_tokens(ordered, chunks, tables)
    _check_range("token id", token_ids, vocab_size, "the vocabulary has")
    _check_range("page id", [*decode_tables, *tables], pages, "the KV cache has pages")

    sample_rows = np.empty(len(decodes) + len(chunks), dtype=np.int64)
    sample_rows[order] = np.arange(len(decodes))
    first_rows = np.cumsum([len(decodes)] + [len(work.token_ids) for work in chunks])
    sample_rows[len(decodes) :] = first_rows[1:] - 1
    arrays = StepArrays(
        token_ids=_joined(token_ids),
        positions=_joined(positions),
        slots=_joined(slots),
        sample_rows=sample_rows,
        lengths=np.array([work.start + len(work.token_ids) for work in (*ordered, *chunks)], dtype=np.int64),
        first_rows=_joined([np.arange(len(decodes)), first_rows]),
        page_starts=_page_starts(decode_tables, tables),
        pages=_joined([table.reshape(-1) for table in decode_tables] + tables),
    )
    return HostStep(
        arrays,
        tuple((first, count, int(ordered[first].start) + 1) for first, count in groups),
        tuple(
            (int(row), len(work.token_ids), work.start + len(work.token_ids))
            for row, work in zip(first_rows[:-1], chunks, strict=True)
        ),
    )


def decode_groups(contexts: Sequence[int]) -> list[tuple[int, int]]:
    """(first, count) of the runs of similar length in contexts that never rise.

    >>> decode_groups([4000, 3900, 1000, 950, 20])
    [(0, 2), (2, 2), (4, 1)]
    """
    groups: list[tuple[int, int]] = []
    first = 0
    for index, context in enumerate(contexts):
        longest = contexts[first]
        padding = longest - context
        too_short = padding > max(longest // PADDING_SHARE, PADDING_TOKENS)
        if index > first and (too_short or (index - first + 1) * longest > GROUP_TOKENS):
            groups.append((first, index - first))
            first = index
    if contexts:
        groups.append((first, len(contexts) - first))
    return groups


def _padded_table(works: Sequence[SequenceWork]) -> NDArray[np.int64]:
    """(decodes, pages of the first and longest); what lies past a shorter one is never read."""
    table = np.zeros((len(works), pages_for(works[0].start + 1)), dtype=np.int64)
    for row, work in zip(table, works, strict=True):
        used = pages_for(work.start + 1)
        row[:used] = work.pages[:used]
    return table


def _new_tokens(
    decodes: Sequence[SequenceWork], chunks: Sequence[SequenceWork], tables: Sequence[NDArray[np.int64]]
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """(token ids, positions, slots) of the new tokens, one array for all decodes and one a chunk; tables: of chunks."""
    starts = np.array([work.start for work in decodes], dtype=np.int64)
    token_ids = [np.array([int(work.token_ids[0]) for work in decodes], dtype=np.int64)]
    token_ids += [np.asarray(work.token_ids) for work in chunks]
    positions = [starts] + [np.arange(w.start, w.start + len(w.token_ids), dtype=np.int64) for w in chunks]
    current_pages = [np.array([work.pages[work.start // PAGE_SIZE] for work in decodes], dtype=np.int64)]
    current_pages += [table[at // PAGE_SIZE] for table, at in zip(tables, positions[1:], strict=True)]
    slots = [page * PAGE_SIZE + at % PAGE_SIZE for page, at in zip(current_pages, positions, strict=True)]
    return token_ids, positions, slots


def _page_starts(decode_tables: Sequence[NDArray[np.int64]], tables: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """(sequences,) where each block table begins; decode_tables: (decodes, pages) of each group, tables: of chunks."""
    ends = np.cumsum([0] + [table.size for table in (*decode_tables, *tables)])
    starts = [end + np.arange(len(table)) * table.shape[1] for end, table in zip(ends, decode_tables, strict=False)]
    return _joined([*starts, ends[len(decode_tables) : -1]])


def _joined(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(parts, dtype=np.int64)


def _check_batch(decodes: Sequence[SequenceWork], chunks: Sequence[SequenceWork]) -> None:
    if not decodes and not chunks:
        raise UsageError("iteration: no decodes and no chunks; expected at least one of them")
    for index, work in enumerate(decodes):
        _check(f"decode {index}", work)
        if len(work.token_ids) != 1:
            raise UsageError(
                f"decode {index}: {len(work.token_ids)} token ids; expected exactly 1: pass several as a chunk"
            )
    for index, work in enumerate(chunks):
        _check(f"chunk {index}", work)


def _check(where: str, work: SequenceWork) -> None:
    if isinstance(work.token_ids, torch.Tensor) and work.token_ids.device.type != "cpu":
        raise UsageError(
            f"{where}: token ids on {work.token_ids.device}; expected them on the CPU, where the batch is "
            "put together: reading them back would make the host wait for the device"
        )
    tokens = len(work.token_ids)
    if tokens < 1:
        raise UsageError(f"{where}: no token ids; expected at least 1 token to compute")
    if work.start < 0:
        raise UsageError(f"{where}: start is {work.start}; expected 0 or more tokens already computed")
    needed = pages_for(work.start + tokens)
    if len(work.pages) < needed:
        raise UsageError(
            f"{where}: {len(work.pages)} pages of {PAGE_SIZE} tokens; expected at least {needed} for start "
            f"{work.start} + {tokens} new tokens: allocate the missing pages first"
        )


def _check_range(what: str, arrays: Sequence[NDArray[np.int64]], limit: int, owner: str) -> None:
    for array in arrays:
        if array.size and (array.min() < 0 or array.max() >= limit):
            wrong = array[(array < 0) | (array >= limit)]
            raise UsageError(f"iteration: {what} {int(wrong[0])}; {owner} 0 to {limit - 1}: check the caller")
