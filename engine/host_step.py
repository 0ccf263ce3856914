"""A mixed batch laid out on the host, built from plain lists in each iteration.

Rows of the pass: the decodes first, by falling context (so that those of similar length are neighbours
and share one padded attention call), then the chunks in the order given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class HostStep:
    """What `Step` says, as int64 arrays on the host. groups: (first row, decodes, longest context), chunks: (first
    row, tokens, length).
    """

    token_ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    slots: NDArray[np.int64]
    sample_rows: NDArray[np.int64]
    lengths: NDArray[np.int64]
    first_rows: NDArray[np.int64]
    page_starts: NDArray[np.int64]
    pages: NDArray[np.int64]
    groups: tuple[tuple[int, int, int], ...]
    chunks: tuple[tuple[int, int, int], ...]

    @property
    def arrays(self) -> tuple[NDArray[np.int64], ...]:
        """In the order in which they lie in one buffer."""
        return (
            self.token_ids,
            self.positions,
            self.slots,
            self.sample_rows,
            self.lengths,
            self.first_rows,
            self.page_starts,
            self.pages,
        )


def lay_out(
    decodes: Sequence[SequenceWork], chunks: Sequence[SequenceWork], *, vocab_size: int, pages: int
) -> HostStep:
    """The metadata of one mixed batch on the host.

    Raises UsageError for an empty batch, a decode that does not have exactly one token, a negative start,
    too few pages, and token or page ids out of range (on a GPU those would end the process).
    """
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

    order = sorted(range(len(decodes)), key=lambda index: -decodes[index].start)
    ordered = [decodes[index] for index in order]
    starts = np.array([work.start for work in ordered], dtype=np.int64)
    tables = [np.asarray(work.pages[: pages_for(work.start + len(work.token_ids))]) for work in chunks]
    positions = [starts] + [np.arange(w.start, w.start + len(w.token_ids), dtype=np.int64) for w in chunks]
    current_pages = [np.array([w.pages[w.start // PAGE_SIZE] for w in ordered], dtype=np.int64)] + [
        table[at // PAGE_SIZE] for table, at in zip(tables, positions[1:], strict=True)
    ]
    slots = [page * PAGE_SIZE + at % PAGE_SIZE for page, at in zip(current_pages, positions, strict=True)]
    token_ids = [np.array([int(work.token_ids[0]) for work in ordered], dtype=np.int64)] + [
        np.asarray(work.token_ids) for work in chunks
    ]
    sample_rows = np.empty(len(decodes) + len(chunks), dtype=np.int64)
    sample_rows[order] = np.arange(len(decodes))
    first_rows = np.cumsum([len(decodes)] + [len(work.token_ids) for work in chunks])
    sample_rows[len(decodes) :] = first_rows[1:] - 1

    groups = decode_groups([work.start + 1 for work in ordered])
    decode_tables = [_padded_table(ordered[first : first + count]) for first, count in groups]
    _check_range("token id", token_ids, vocab_size, "the vocabulary has")
    _check_range("page id", [*decode_tables, *tables], pages, "the KV cache has pages")

    flat = [table.reshape(-1) for table in decode_tables] + tables
    ends = np.cumsum([0] + [len(table) for table in flat])
    page_starts = [
        first_page + np.arange(len(table)) * table.shape[1]
        for first_page, table in zip(ends, decode_tables, strict=False)
    ]
    return HostStep(
        _joined(token_ids),
        _joined(positions),
        _joined(slots),
        sample_rows,
        np.array([w.start + len(w.token_ids) for w in (*ordered, *chunks)], dtype=np.int64),
        _joined([np.arange(len(decodes)), first_rows]),
        _joined([*page_starts, ends[len(groups) : -1]]),
        _joined(flat),
        tuple((first, count, int(starts[first]) + 1) for first, count in groups),
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


def _joined(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(parts, dtype=np.int64)


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
