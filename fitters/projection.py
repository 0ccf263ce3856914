"""Any curve as ladder(n + c) + base(n, k, c, u): the one place where an estimator of another form is brought to it.

A sum of the two parts can carry a curve in many ways (slopes of n and c may lie in either), and the closure
needs both parts non-decreasing: a ladder that rises by more than every state does leaves a base that falls.
So the ladder is fitted jointly with the seven features, all rises and weights >= 0, to the curve's own values
(least squares of relative error, as scene_experts fits data), at the points that were measured and, for each
total n + c the ladder has a knot at, at a few of their states moved to that total: there the curve knows
something, while corners of the grid are extrapolation. The base is what the ladder leaves of the curve.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..tables.batch import Scene
from ..tables.grid import Ladder, Points, batch_totals
from .estimator import Curve, Millis, SplitCurve
from .feature_curve import FeatureCurve
from .rows import Rows
from .scene_experts import ladder_and_features

STATES = 12  # per ladder knot: states (n, k, u) of measured points, moved to its total
CURVATURE = 1e-3  # a curve has no noise that the ladder should smooth away, only gaps between its points
MOST_POINTS = 4000  # measured points at which the curve is read; more say nothing new of a smooth base


@dataclass(frozen=True, slots=True)
class Projected:
    """A curve less a ladder that was fitted to it. base_ms may fall where the curve does."""

    curve: Curve
    ladder: FeatureCurve

    def ladder_ms(self, batch_tokens: NDArray[np.int64]) -> Millis:
        return self.ladder.ladder_ms(batch_tokens)

    def base_ms(self, points: Points) -> Millis:
        return self.curve.total_ms(points) - self.ladder_ms(batch_totals(points))

    def total_ms(self, points: Points) -> Millis:
        return self.curve.total_ms(points)


def split(curve: Curve, scene: Scene, ladder: Ladder, measured: Points) -> SplitCurve:
    """`curve` in two parts, itself when it is made of them. measured: points of the scene, shape (points, 4)."""
    if isinstance(curve, SplitCurve):
        return curve
    points = _probes(scene, ladder, measured)
    values = Rows(points, curve.total_ms(points), np.arange(len(points)), np.zeros(len(points), dtype=np.bool_))
    return Projected(curve, ladder_and_features(values, scene, ladder, CURVATURE))


def _probes(scene: Scene, ladder: Ladder, measured: Points) -> Points:
    """Measured points, and some of their states with c (n for decodes) moved so that n + c is at each knot."""
    rng = np.random.default_rng(0)
    known = np.unique(measured, axis=0)
    if len(known) > MOST_POINTS:
        known = known[rng.choice(len(known), MOST_POINTS, replace=False)]
    totals = np.repeat(np.asarray(ladder.batch_tokens, dtype=np.int64), STATES)
    moved = known[rng.integers(0, len(known), len(totals))]
    if scene is Scene.DECODE:
        moved[:, 0] = totals
    else:
        moved[:, 2] = totals - moved[:, 0]
        moved = moved[moved[:, 2] >= 1]
    return np.unique(np.concatenate([known, moved]), axis=0)
