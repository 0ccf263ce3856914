"""The batch in fixed memory, where CUDA graphs read it, and the padding of a batch to a captured size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from ..host_step import HostStep, StepArrays
from ..kv_cache import PAGE_SIZE
from ..step import DecodeGroup, Step, host_buffer, split_buffer, step_from

_NONE = np.empty(0, dtype=np.int64)
# A batch without sequences: the first run of a captured function computes padding alone.
EMPTY_BATCH = HostStep(
    StepArrays(*[_NONE] * len(StepArrays._fields))._replace(first_rows=np.zeros(1, dtype=np.int64)), (), ()
)


class StaticBatch:
    """One int64 buffer for batches of up to `rows` rows whose block tables have up to `pages` entries.

    Each batch is copied to the front of the buffer in the order of `StepArrays`, in one copy, as for an eager pass.
    Where an array begins depends only on the padded numbers of rows and sequences, so graphs read fixed addresses.
    """

    def __init__(self, rows: int, pages: int, device: torch.device) -> None:
        self._entries = sum(_decode_sizes(rows, pages))
        self._buffer = torch.zeros(self._entries, device=device, dtype=torch.int64)

    def holds(self, batch: HostStep) -> bool:
        return sum(len(array) for array in batch.arrays) <= self._entries

    def load(self, batch: HostStep) -> None:
        """Copies a padded batch into the buffer; does not wait for the device."""
        buffer = host_buffer(batch, self._buffer.device)
        self._buffer[: len(buffer)].copy_(buffer, non_blocking=True)

    def step(self, batch: HostStep) -> Step:
        """The step of `batch`, which was loaded last: attention outside the graphs reads it."""
        return step_from(batch, self._buffer)

    def rows_step(self, size: int) -> Step:
        """The step that piecewise graphs of `size` rows read: tokens, positions and slots, no sequences."""
        return Step(split_buffer(self._buffer, StepArrays(size, size, size, 0, 0, 0, 0, 0)), (), ())

    def decode_step(self, size: int, longest: int) -> Step:
        """The step that the graph of `size` decodes reads, for all contexts of up to `longest` tokens."""
        pages = self._entries - sum(_decode_sizes(size, 0))
        arrays = split_buffer(self._buffer, _decode_sizes(size, pages))
        return Step(arrays, (DecodeGroup(0, size, longest, arrays.lengths, arrays.pages[:0]),), ())


def pad_rows(batch: HostStep, size: int, dummy_page: int) -> HostStep:
    """`batch` with rows added up to `size`: token 0 at position 0, written to `dummy_page`, which no sequence owns.

    The sequences stay as they are, so attention skips the new rows.
    """
    arrays = batch.arrays
    padded = arrays._replace(
        token_ids=_filled(arrays.token_ids, size, 0),
        positions=_filled(arrays.positions, size, 0),
        slots=_filled(arrays.slots, size, dummy_page * PAGE_SIZE),
    )
    return replace(batch, arrays=padded)


def pad_decodes(batch: HostStep, size: int, dummy_page: int) -> HostStep:
    """`batch`, decodes alone, with decodes added up to `size`, each a sequence of one token."""
    padded = pad_rows(batch, size, dummy_page)
    arrays, decodes = padded.arrays, len(batch.arrays.token_ids)
    sequences = arrays._replace(
        sample_rows=_filled(arrays.sample_rows, size, 0),
        lengths=_filled(arrays.lengths, size, 1),
        first_rows=np.arange(size + 1, dtype=np.int64),
        page_starts=_filled(arrays.page_starts, size, len(arrays.pages)),
        pages=_filled(arrays.pages, len(arrays.pages) + (size > decodes), dummy_page),
    )
    return replace(padded, arrays=sequences)


def _decode_sizes(decodes: int, pages: int) -> StepArrays[int]:
    return StepArrays(
        token_ids=decodes,
        positions=decodes,
        slots=decodes,
        sample_rows=decodes,
        lengths=decodes,
        first_rows=decodes + 1,
        page_starts=decodes,
        pages=pages,
    )


def _filled(values: NDArray[np.int64], size: int, value: int) -> NDArray[np.int64]:
    # np.pad takes ten times as long, seven times an iteration.
    filled = np.full(size, value, dtype=np.int64)
    filled[: len(values)] = values
    return filled
