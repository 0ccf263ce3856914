"""A curve as a table's surfaces: split into ladder(n + c) + base(n, k, c, u), corrected by the data, ordered, in ticks.

`additive_split` writes any fitted curve as ladder + base. Between two knots the ladder takes the smallest rise seen in
any state, so the base does not fall where the curve does not. Taking the typical rise made the base fall; ordering it
doubled the error on the measured grids. The states are (n, k, u) or (k, c, u) of measured points, moved from one total
to the next. A step that every state has is whole in the ladder; a curve of trees, flat somewhere at every total, has no
ladder. The base is what the ladder leaves of the curve.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..tables.batch import Scene
from ..tables.grid import Ladder, Points, Surface, batch_totals, nearest_ticks, ticks_up
from .estimators.estimator import Curve, Millis, SceneModel, SplitCurve
from .isotonic_projection import isotonic_projection
from .node_residuals import Nodes, SceneGrid, smooth_residuals
from .noise import ExpectedNodes, NoiseScale
from .rows import Rows

SMALLEST_LADDER_MS = 1e-3  # a ladder is a time and never 0
MOST_STATES = 200  # measured points whose states are moved from total to total


@dataclass(frozen=True, slots=True)
class SceneSurfaces:
    """expected: ordered. scale: what one unit of the margin's multiplier adds. raw: nodes before ordering."""

    expected: Surface
    scale: Surface
    raw: Nodes


def scene_surfaces(
    grid: SceneGrid, model: SceneModel, medians: Rows, noise: NoiseScale, strength: float | None = None
) -> SceneSurfaces:
    """Surfaces of one scene from its model and the point medians of its fit rows.

    strength: of the corrections' smoothness, see `smooth_residuals`.
    """
    points, ladder = grid.points, grid.ladder
    totals = np.asarray(ladder.batch_tokens, dtype=np.int64)
    curve = additive_split(model.expected, grid.scene, ladder, medians.points)
    # Ladder and base share a constant: the base is 0 at its lowest corner.
    base_ms = curve.base_ms(points)
    lowest = float(base_ms[0])
    ladder_ms, base_ms = np.maximum(curve.ladder_ms(totals) + lowest, SMALLEST_LADDER_MS), base_ms - lowest
    nodes = smooth_residuals(grid, ladder_ms, base_ms, medians, strength)
    closed_ladder = np.maximum(isotonic_projection(nodes.ladder, nodes.ladder_measured), SMALLEST_LADDER_MS)
    # Base is an increment on top of the ladder: the offset makes its ordering relative to the sum.
    closed_base = isotonic_projection(nodes.base, nodes.base_measured, float(np.median(ladder_ms)))
    node_ladder = grid.ladder_at_nodes(closed_ladder).reshape(closed_base.shape)
    expected = ExpectedNodes(points, closed_ladder, closed_base, node_ladder, nodes.base_measured)
    ladder_scale, base_scale = noise.at_nodes(expected, model)
    return SceneSurfaces(
        Surface(nearest_ticks(closed_ladder), nearest_ticks(closed_base)),
        Surface(ticks_up(ladder_scale), ticks_up(base_scale)),
        nodes,
    )


@dataclass(frozen=True, slots=True)
class AdditiveCurve:
    """A curve minus a ladder: knots and knot_ms, (knots,). base_ms may fall where the curve falls."""

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
    """`curve` as ladder + base; itself when it has that form. measured: points of the scene, shape (points, 4)."""
    if isinstance(curve, SplitCurve):
        return curve
    states = np.unique(measured, axis=0)
    if len(states) > MOST_STATES:
        states = states[np.random.default_rng(0).choice(len(states), MOST_STATES, replace=False)]
    totals = np.asarray(ladder.batch_tokens, dtype=np.int64)
    rises = np.full(len(totals) - 1, np.inf)
    for column in {Scene.DECODE: (0,), Scene.PREFILL: (2,), Scene.MIXED: (0, 2)}[scene]:
        rises = np.minimum(rises, _least_rises(curve, states, totals, column))
    rises = np.maximum(np.where(np.isfinite(rises), rises, 0.0), 0.0)
    knots, knot_ms = totals.astype(np.float64), np.concatenate([[0.0], np.cumsum(rises)])
    constant = float(np.min(curve.total_ms(states) - np.interp(batch_totals(states), knots, knot_ms)))
    return AdditiveCurve(curve, knots, knot_ms + max(constant, 0.0))


def _least_rises(curve: Curve, states: Points, totals: NDArray[np.int64], column: int) -> Millis:
    """Least rise of the curve from each total to the next; inf where no state reaches the total.

    column: the one that is changed to reach a total.
    """
    other = states[:, 2 - column]
    points = np.repeat(states[None], len(totals), axis=0)  # (totals, states, 4)
    points[:, :, column] = totals[:, None] - other
    reached = points[:, :, column] >= 1
    points[:, :, column] = np.maximum(points[:, :, column], 1)
    values = curve.total_ms(points.reshape(-1, 4)).reshape(reached.shape)
    rises = np.where(reached[:-1], np.diff(values, axis=0), np.nan)
    least = np.full(len(rises), np.inf)
    some = reached[:-1].any(axis=1)
    least[some] = np.nanmin(rises[some], axis=1)
    return least
