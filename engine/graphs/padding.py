"""Rows that fill a batch up to a captured size: token 0 at position 0, on a page that no sequence owns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..host_step import HostStep
from ..kv_cache import PAGE_SIZE

_NONE = np.empty(0, dtype=np.int64)
# What is captured is run for the first time on padding alone.
NOTHING = HostStep(_NONE, _NONE, _NONE, _NONE, _NONE, np.zeros(1, dtype=np.int64), _NONE, _NONE, (), ())


def pad_rows(batch: HostStep, size: int, dummy_page: int) -> HostStep:
    """`batch` with `size` rows. What is said of its sequences stays: attention passes over the new rows."""
    return replace(
        batch,
        token_ids=_filled(batch.token_ids, size, 0),
        positions=_filled(batch.positions, size, 0),
        slots=_filled(batch.slots, size, dummy_page * PAGE_SIZE),
    )


def pad_decodes(batch: HostStep, size: int, dummy_page: int) -> HostStep:
    """`batch`, decodes alone, with `size` of them: each new one a sequence of one token."""
    decodes = len(batch.token_ids)
    return replace(
        pad_rows(batch, size, dummy_page),
        sample_rows=_filled(batch.sample_rows, size, 0),
        lengths=_filled(batch.lengths, size, 1),
        first_rows=np.arange(size + 1, dtype=np.int64),
        page_starts=_filled(batch.page_starts, size, len(batch.pages)),
        pages=_filled(batch.pages, len(batch.pages) + (size > decodes), dummy_page),
    )


def _filled(values: NDArray[np.int64], size: int, value: int) -> NDArray[np.int64]:
    # np.pad takes ten times as long, seven times an iteration.
    filled = np.full(size, value, dtype=np.int64)
    filled[: len(values)] = values
    return filled
