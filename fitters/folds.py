"""What cross-validation leaves out: whole points, bands of values, or sessions. Never single rows of a point.

A model that is asked about batches it has rows of is flattered; so is one that is only asked about neighbours
of what it knows. Point folds ask about new points among the old, value folds about values of one axis (n, k, c or u)
of which there is nothing: every third, or every third band where there are many. The largest decode batches and
prefixes are among them, so that half of the score is extrapolation's risk. Where several profiles were joined, session
folds ask about a whole session: its points, and a state of the device that no other had.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..tables.grid import Points, scene_of
from .rows import Rows

POINT_FOLDS = 4
SESSION_FOLDS = 4  # at most
THIRD = 3
MIN_VALUES = 4  # with fewer no value lies between others that stay
MOST_VALUES = 64  # distinct values up to which an axis is a grid
BAND = 1.5  # ratio of the ends of a band

Mask = NDArray[np.bool_]


def point_folds(rows: Rows) -> list[Mask]:
    """Rows to hold out, POINT_FOLDS times; each point is held out once. The same for the same point ids."""
    ids, inverse = np.unique(rows.point_id, return_inverse=True)
    fold = (np.random.default_rng(0).permutation(len(ids)) % POINT_FOLDS)[inverse]
    return [fold == f for f in range(POINT_FOLDS)]


def value_folds(rows: Rows) -> list[Mask]:
    """Rows to hold out, once for each axis that has MIN_VALUES values or more: every third, counted from the last."""
    folds = []
    for axis in range(rows.points.shape[1]):
        values = rows.points[:, axis]
        used = values > 0
        group = _group(values, used)
        if len(np.unique(group[used])) >= MIN_VALUES:
            folds.append(used & ((group[used].max() - group) % THIRD == axis % THIRD))
    return folds


def session_folds(rows: Rows) -> list[Mask]:
    """Rows to hold out, each session once, several together where they are many; none where there is one session."""
    sessions, number = np.unique(np.searchsorted(rows.joined, rows.point_id, side="right"), return_inverse=True)
    folds = min(len(sessions), SESSION_FOLDS)
    return [number % folds == f for f in range(folds)] if folds > 1 else []


def between(known: Rows, points: Points) -> Mask:
    """Which points lie in the box of the known ones of their scene, (points,).

    A fold that lost an outermost batch extrapolates to it, and a table of all rows does not.
    """
    names, inside = scene_of(points), np.zeros(len(points), dtype=np.bool_)
    for scene in known.scenes():
        box = known.scene(scene).points
        within = (points >= box.min(axis=0)) & (points <= box.max(axis=0))
        inside |= (names == scene.value) & within.all(axis=1)
    return inside


def _group(values: NDArray[np.int64], used: Mask) -> NDArray[np.int64]:
    """Number of each value's grid value or band, counted over the used rows."""
    distinct = np.unique(values[used])
    if len(distinct) > MOST_VALUES:
        bands: NDArray[np.int64] = np.floor(np.log(np.maximum(values, 1)) / np.log(BAND)).astype(np.int64)
        return bands
    return np.asarray(np.searchsorted(distinct, values), dtype=np.int64)
