"""Milliseconds to and from the table's integers of 2^-14 ms."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .lookup import MAX_TICKS, ROUND_UP, TICKS_PER_MS, WEIGHT_BITS

Ticks = NDArray[np.int64]


def nearest_ticks(ms: NDArray[np.float64]) -> Ticks:
    """Rounded to the nearest tick: expected times."""
    return np.rint(np.asarray(ms) * TICKS_PER_MS).astype(np.int64)


def ticks_up(ms: NDArray[np.float64]) -> Ticks:
    """Rounded up to a whole tick: bounds, which may only grow."""
    return np.ceil(np.asarray(ms) * TICKS_PER_MS).astype(np.int64)


def to_ms(ticks: Ticks) -> NDArray[np.float64]:
    """Exact: a tick is a power of two and every value is below 2^40 ticks."""
    return np.asarray(ticks, dtype=np.float64) / TICKS_PER_MS


def raised(ticks: int, factor: int) -> int:
    """Ticks times a factor of 1/4096, rounded up: non-decreasing in both, so order stays order."""
    return (ticks * factor + ROUND_UP) >> WEIGHT_BITS


def budget_ticks(budget_ms: float) -> int:
    """Largest whole number of ticks within a budget. U <= budget in ms if and only if in ticks.

    Raises ValueError for NaN.
    """
    if math.isnan(budget_ms):
        raise ValueError("budget_ms is NaN")
    return math.floor(max(min(budget_ms * TICKS_PER_MS, 2.0 * MAX_TICKS), -1.0))
