"""Any curve as ladder(n + c) + base(n, k, c, u): the one place where an estimator of another form is brought to it.

A sum of the two parts can carry a curve in many ways, and the closure needs both non-decreasing: a ladder that
rises by more than some state does leaves a base that falls there, and closing that costs far more than the curve's
own falls (on measured grids the error doubled). So from knot to knot the ladder rises by what all states have in
common: the least rise of the curve, read at states (n, k, u) or (k, c, u) of measured points moved from one total to
the next. A step that every state has is in it whole; a curve of trees, flat somewhere at every total, has no ladder.
The base is what the ladder leaves of the curve.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..tables.batch import Scene
from ..tables.grid import Ladder, Points, batch_totals
from .estimators.estimator import Curve, Millis, SplitCurve

STATES = 200  # measured points whose states are moved from total to total


@dataclass(frozen=True, slots=True)
class Projected:
    """A curve less a ladder of least rises: knots and knot_ms, (knots,). base_ms may fall where the curve does."""

    curve: Curve
    knots: NDArray[np.float64]
    knot_ms: NDArray[np.float64]

    def ladder_ms(self, batch_tokens: NDArray[np.int64]) -> Millis:
        return np.interp(batch_tokens, self.knots, self.knot_ms)

    def base_ms(self, points: Points) -> Millis:
        return self.curve.total_ms(points) - self.ladder_ms(batch_totals(points))

    def total_ms(self, points: Points) -> Millis:
        return self.curve.total_ms(points)


def additive_split(curve: Curve, scene: Scene, ladder: Ladder, measured: Points) -> SplitCurve:
    """`curve` in two parts, itself when it is made of them. measured: points of the scene, shape (points, 4)."""
    if isinstance(curve, SplitCurve):
        return curve
    known = np.unique(measured, axis=0)
    if len(known) > STATES:
        known = known[np.random.default_rng(0).choice(len(known), STATES, replace=False)]
    totals = np.asarray(ladder.batch_tokens, dtype=np.int64)
    rises = np.full(len(totals) - 1, np.inf)
    for moved in {Scene.DECODE: (0,), Scene.PREFILL: (2,), Scene.MIXED: (0, 2)}[scene]:
        rises = np.minimum(rises, _least_rises(curve, known, totals, moved))
    rises = np.maximum(np.where(np.isfinite(rises), rises, 0.0), 0.0)
    knots, knot_ms = totals.astype(np.float64), np.concatenate([[0.0], np.cumsum(rises)])
    constant = float(np.min(curve.total_ms(known) - np.interp(batch_totals(known), knots, knot_ms)))
    return Projected(curve, knots, knot_ms + max(constant, 0.0))


def _least_rises(curve: Curve, known: Points, totals: NDArray[np.int64], moved: int) -> Millis:
    """From each total to the next; inf where no state can be moved there. moved: the column that makes the total."""
    other = known[:, 2 - moved]
    points = np.repeat(known[None], len(totals), axis=0)  # (totals, states, 4)
    points[:, :, moved] = totals[:, None] - other
    able = points[:, :, moved] >= 1
    points[:, :, moved] = np.maximum(points[:, :, moved], 1)
    values = curve.total_ms(points.reshape(-1, 4)).reshape(able.shape)
    rises = np.where(able[:-1], np.diff(values, axis=0), np.nan)
    found = np.full(len(rises), np.inf)
    some = able[:-1].any(axis=1)
    found[some] = np.nanmin(rises[some], axis=1)
    return found
