"""Falling steps: how often a prediction falls where a batch gains work along one axis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from chunkfit.fitters.rows import Rows
from chunkfit.tables.grid import Points

AXES = ("decodes", "context", "chunk", "prefix")
MOST = 1500  # states asked along each axis
TOLERANCE = 1e-9  # relative: what adding floats in another order does


def falls(predict: Callable[[Points], NDArray[np.float64]], rows: Rows, seed: int) -> dict[str, tuple[int, int]]:
    """axis -> (falling steps, steps asked), from measured batches to the next measured value, scenes included.

    From no decode to the fewest and from no chunk to the smallest are steps too. An axis without a second value is
    left out.
    """
    known = np.unique(rows.points, axis=0)
    drawn = np.random.default_rng(seed).permutation(len(known))[:MOST]
    found = {}
    for axis, name in enumerate(AXES):
        less, more = _step(known[drawn], axis, np.unique(known[:, axis]), known)
        if len(less):
            fallen = predict(more) < predict(less) * (1 - TOLERANCE)
            found[name] = (int(fallen.sum()), len(less))
    return found


def _step(points: Points, axis: int, values: NDArray[np.int64], known: Points) -> tuple[Points, Points]:
    if axis == 1:  # a context is a decode's, a prefix a chunk's
        points = points[points[:, 0] > 0]
    if axis == 3:
        points = points[points[:, 2] > 0]
    next_ = np.searchsorted(values, points[:, axis], side="right")
    points, next_ = points[next_ < len(values)], next_[next_ < len(values)]
    more = points.copy()
    more[:, axis] = values[next_]
    if axis == 0:  # the first decode brings a context
        first = (points[:, 0] == 0) & (more[:, 0] > 0)
        more[first, 1] = known[known[:, 0] > 0, 1].min(initial=1)
    return points, more
