"""The nearest array that is non-decreasing along every axis, in weighted least squares.

Along one axis this is isotonic regression (pool adjacent violators), along several the intersection of cones,
reached by Dykstra's alternating projections (Boyle & Dykstra 1986): project along one axis after the other,
each time giving back what the last projection along the same axis took.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ROUNDS = 60
# Largest change in a round. Ten times less takes twice as long and moves a node of the attention grid by 0.001% on
# average, by 0.09% at most.
TOLERANCE = 1e-4

Floats = NDArray[np.float64]


def isotonic_lines(values: Floats, weights: Floats) -> Floats:
    """Isotonic regression of every row of `values` (lines, length), weights > 0 of the same shape.

    The max-min formula (Robertson, Wright & Dykstra 1988, 1.4.3), g_i = max over a <= i of min over b >= i of the
    weighted mean of a..b, gives what pooling adjacent violators does, for all lines at once: lengths are those of
    table axes, and length^2 numbers a line are few.
    """
    length = values.shape[1]
    start = np.zeros((len(values), 1))
    weight = np.hstack([start, np.cumsum(weights, axis=1)])
    total = np.hstack([start, np.cumsum(weights * values, axis=1)])
    result = np.full(values.shape, -np.inf)
    for a in range(length):
        mean = (total[:, a + 1 :] - total[:, a : a + 1]) / (weight[:, a + 1 :] - weight[:, a : a + 1])
        least = np.minimum.accumulate(mean[:, ::-1], axis=1)[:, ::-1]
        result[:, a:] = np.maximum(result[:, a:], least)
    return result


def monotone(values: Floats, weights: Floats) -> Floats:
    """The projection of `values` (any number of axes), up to TOLERANCE or ROUNDS; weights > 0."""
    current = values.copy()
    taken = [np.zeros_like(values) for _ in range(values.ndim)]
    for _ in range(ROUNDS):
        before = current
        for axis in range(values.ndim):
            wanted = current + taken[axis]
            current = _along(wanted, weights, axis)
            taken[axis] = wanted - current
        if np.abs(current - before).max() < TOLERANCE:
            break
    return current


def _along(values: Floats, weights: Floats, axis: int) -> Floats:
    moved, heavy = np.moveaxis(values, axis, -1), np.moveaxis(weights, axis, -1)
    lines = moved.reshape(-1, moved.shape[-1]).copy()
    falling = (np.diff(lines, axis=1) < 0).any(axis=1)  # the others are their own projection
    lines[falling] = isotonic_lines(lines[falling], heavy.reshape(lines.shape)[falling])
    return np.moveaxis(lines.reshape(moved.shape), -1, axis)
