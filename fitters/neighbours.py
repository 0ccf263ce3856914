"""Neighbours of points among themselves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def without_self(found: NDArray[np.int64]) -> NDArray[np.int64]:
    """The nearest neighbours of each point but the point itself: (points, count) to (points, count - 1)."""
    own = found == np.arange(len(found))[:, None]
    own[~own.any(axis=1), -1] = True  # it is not among its nearest where others stand on the same place
    return np.asarray(found[~own].reshape(len(found), -1))
