"""Monotone closure of the expected time: what changes it least. That of the bound only raises: tables/closure.py.

The design closes by the geometric mean of the running maximum from below and the running minimum from above. One node
that is off then moves all others as far as those that contradict it; the projection weighs how many say what. On the
public attention grid, every third value left out, the table erred 3.9% with it and 4.2% with the mean.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .monotone_projection import monotone

UNMEASURED = 1e-3  # weight of a node without data beside one with data

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def close_expected(values: Floats, measured: Mask, offset: float = 0.0) -> Floats:
    """Non-decreasing along every axis: the projection of the logarithm, by least squares over the measured nodes.

    Nodes without data follow those with data: they start where these leave room. `offset` (>= 0) is added before the
    logarithm: a base is an increment on top of a ladder, and its relative size is relative to the sum.
    """
    shifted = np.log(np.maximum(values + offset, 1e-12))
    projected = monotone(with_room(shifted, measured), np.where(measured, 1.0, UNMEASURED))
    return np.maximum(np.exp(in_order(projected)) - offset, 0.0)


def with_room(values: Floats, measured: Mask) -> Floats:
    """`values`, those of nodes without data moved to where the nodes with data leave room."""
    below, above = _envelopes(values, measured)
    return np.where(measured, values, np.clip(values, np.minimum(below, above), np.maximum(below, above)))


def in_order(projected: Floats) -> Floats:
    """The projection stops within a tolerance: what it leaves is shared."""
    below, above = _envelopes(projected, np.ones(projected.shape, dtype=np.bool_))
    return np.asarray((below + above) / 2)


def _envelopes(values: Floats, through: Mask) -> tuple[Floats, Floats]:
    """Running maximum from below and running minimum from above, through the marked nodes."""
    below = np.where(through, values, -np.inf)
    above = np.where(through, values, np.inf)
    for axis in range(values.ndim):
        below = np.maximum.accumulate(below, axis=axis)
        above = np.flip(np.minimum.accumulate(np.flip(above, axis), axis=axis), axis)
    return below, above
