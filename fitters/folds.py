"""What cross-validation leaves out: whole points, bands of values, or sessions. Never single rows of a point.

A model that is asked about batches it has rows of is flattered; so is one that is only asked about neighbours
of what it knows. Point folds ask about new points among the old, value folds about chunk sizes (batch sizes
where there is no chunk) of which there is nothing: every third value, or every third band of values where
there are many, the outermost ones too, so that a third of the score is extrapolation's risk. Where several profiles
were joined, session folds ask about a whole session: its points, and a state of the device that no other had.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .rows import Rows

POINT_FOLDS = 4
VALUE_FOLDS = 3
SESSION_FOLDS = 4  # at most
MOST_VALUES = 64  # distinct values up to which an axis is a grid
BAND = 1.5  # ratio of the ends of a band

Mask = NDArray[np.bool_]


def point_folds(rows: Rows) -> list[Mask]:
    """Rows to hold out, POINT_FOLDS times; each point is held out once. The same for the same point ids."""
    ids, inverse = np.unique(rows.point_id, return_inverse=True)
    fold = (np.random.default_rng(0).permutation(len(ids)) % POINT_FOLDS)[inverse]
    return [fold == f for f in range(POINT_FOLDS)]


def value_folds(rows: Rows) -> list[Mask]:
    """Rows to hold out, VALUE_FOLDS times: every third value of c, of n where c = 0. Folds may be empty."""
    n, c = rows.points[:, 0], rows.points[:, 2]
    fold = np.where(c > 0, _group(c, c > 0), _group(n, c == 0)) % VALUE_FOLDS
    return [fold == f for f in range(VALUE_FOLDS)]


def session_folds(rows: Rows) -> list[Mask]:
    """Rows to hold out, each session once, several together where they are many; none where there is one session."""
    sessions, number = np.unique(np.searchsorted(rows.joined, rows.point_id, side="right"), return_inverse=True)
    folds = min(len(sessions), SESSION_FOLDS)
    return [number % folds == f for f in range(folds)] if folds > 1 else []


def _group(values: NDArray[np.int64], used: Mask) -> NDArray[np.int64]:
    """Number of each value's grid value or band, counted over the used rows."""
    distinct = np.unique(values[used])
    if len(distinct) > MOST_VALUES:
        bands: NDArray[np.int64] = np.floor(np.log(np.maximum(values, 1)) / np.log(BAND)).astype(np.int64)
        return bands
    return np.asarray(np.searchsorted(distinct, values), dtype=np.int64)
