"""The batch where captured work reads it: one int64 buffer for all sizes."""

from __future__ import annotations

import torch

from ..host_step import HostStep
from ..step import DecodeGroup, Step, host_buffer, views


class StaticStep:
    """Room for a batch of up to `rows` rows whose block tables have up to `pages` entries.

    A batch lies at the front of the buffer as `host_buffer` lays it out, so it gets there in the one copy that any
    batch takes; where its arrays begin depends only on how many rows and sequences it was padded to.
    """

    def __init__(self, rows: int, pages: int, device: torch.device) -> None:
        # Three entries a row, four a sequence (at most as many as rows), one more end of rows.
        self._entries = 7 * rows + 1 + pages
        self._buffer = torch.zeros(self._entries, device=device, dtype=torch.int64)

    def holds(self, batch: HostStep) -> bool:
        return sum(len(array) for array in batch.arrays) <= self._entries

    def load(self, batch: HostStep) -> None:
        """Copies `batch`, padded, without waiting."""
        buffer = host_buffer(batch, self._buffer.device)
        self._buffer[: len(buffer)].copy_(buffer, non_blocking=True)

    def views(self, batch: HostStep) -> Step:
        """Of the batch loaded last, for what is not captured."""
        return views(batch, self._buffer)

    def rows(self, size: int) -> Step:
        """What the pieces read of a batch padded to `size` rows: nothing of its sequences."""
        token_ids, positions, slots, rest = torch.split(self._buffer, [size, size, size, self._entries - 3 * size])
        none = rest[:0]
        return Step(token_ids, positions, slots, none, none, none, none, none, (), ())

    def decodes(self, size: int, longest: int) -> Step:
        """A batch of decodes padded to `size` of them, whatever their contexts are up to `longest`."""
        sizes = [*[size] * 5, size + 1, size]
        token_ids, positions, slots, sample_rows, lengths, first_rows, page_starts, pages = torch.split(
            self._buffer, [*sizes, self._entries - sum(sizes)]
        )
        group = DecodeGroup(0, size, longest, lengths, pages[:0])
        return Step(token_ids, positions, slots, sample_rows, lengths, first_rows, page_starts, pages, (group,), ())
