"""How far a batch's time lies from what other points say of it, read from the errors of the points around it.

The errors are those of left-out points: whoever interpolates has none at the points that it knows. Read is a high
quantile of the neighbours in log2(1 + x), since a margin is about the large ones, with PRIOR further neighbours of the
quantile over all. Errors are counted in units of KNOWN plus the estimator's own doubt (estimator.py): left-out points
have neighbours on every side, and what a gap between measured values costs only the estimator can tell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from ..tables.grid import Points
from .left_out import LeftOut
from .numerics import without_self

QUANTILE = 0.9
NEIGHBOURS, PRIOR = 100, 20
SMALLEST = 1e-3  # of the time: measured times agree no better
# What an estimator's own doubt is added to, of the time. From 0.05 to 0.3 no bound on public data changes by 1%.
KNOWN = 0.1

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Spread:
    """sizes: (points,), mean |T / E - 1| over the rows of each left-out point over KNOWN + its doubt.

    usual: the multiplier of about 0.99 coverage, 1 at least; calibration finds the one that is promised.
    """

    tree: cKDTree
    sizes: Floats
    usual: float

    def at(self, points: Points, doubt: Floats) -> Floats:
        """Relative spread at each point, (points,). doubt: the estimator's, of each."""
        return (KNOWN + doubt) * self._read(self._nearest(np.log2(1.0 + points), NEIGHBOURS))

    def without_own(self, doubt: Floats) -> Floats:
        """Relative spread at each left-out point, from the others' errors alone."""
        return (KNOWN + doubt) * self._read(without_self(self._nearest(self.tree.data, NEIGHBOURS + 1)))

    def _nearest(self, asked: Floats, count: int) -> NDArray[np.int64]:
        count = min(count, len(self.sizes))
        _, found = self.tree.query(asked, k=count)
        return np.asarray(found, dtype=np.int64).reshape(len(asked), count)

    def _read(self, near: NDArray[np.int64]) -> Floats:
        usual = np.quantile(self.sizes, QUANTILE)
        if not near.shape[1]:  # a point alone has no others around it
            return np.full(len(near), usual)
        here = np.quantile(self.sizes[near], QUANTILE, axis=1)
        return np.asarray((near.shape[1] * here + PRIOR * usual) / (near.shape[1] + PRIOR))


def fit_spread(left: LeftOut) -> tuple[Spread, Floats]:
    """The spread, and what it says of each row of `left` without that row's point."""
    _, first, inverse = np.unique(left.rows.point_id, return_index=True, return_inverse=True)
    errors = np.abs(left.rows.latency_ms / left.expected_ms - 1.0)
    sizes, doubt = np.bincount(inverse, weights=errors) / np.bincount(inverse), left.doubt[first]
    counted = np.maximum(sizes, SMALLEST) / (KNOWN + doubt)
    spread = Spread(cKDTree(np.log2(1.0 + left.rows.points[first])), counted, 1.0)
    own = spread.without_own(doubt)[inverse]
    usual = float(np.quantile((left.rows.latency_ms / left.expected_ms - 1.0) / own, 0.99))
    return replace(spread, usual=max(usual, 1.0)), own
