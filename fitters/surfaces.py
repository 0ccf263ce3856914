"""An estimator's models and the data's residuals as the table's surfaces, in ticks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..tables.batch import Scene
from ..tables.grid import Axes, Ladder, Points, Surface, nearest_ticks, node_points, ticks_up
from .estimators.estimator import Lift, Millis, SceneModel
from .isotonic_projection import isotonic_projection
from .node_residuals import Nodes, smooth_residuals
from .projection import additive_split
from .rows import Rows
from .scale import scale_of, spread_parts
from .spread import Spread

SMALLEST_MS = 1e-3  # a ladder is a time: it never reaches 0


@dataclass(frozen=True, slots=True)
class SceneSurfaces:
    """expected: closed. scale: what one unit of the margin's multiplier adds. raw: nodes before closure."""

    expected: Surface
    scale: Surface
    raw: Nodes


def scene_surfaces(
    axes: Axes,
    scene: Scene,
    ladder: Ladder,
    model: SceneModel,
    medians: Rows,
    scale: str | Spread,
    step_totals: Sequence[int],
    strength: float | None = None,
) -> SceneSurfaces:
    """Surfaces of one scene from its model and the point medians of its fit rows; strength as in `smooth_residuals`.

    scale: the name of a shape, of "spread" the spread itself.
    """
    points = node_points(axes, scene)
    totals = np.asarray(ladder.batch_tokens, dtype=np.int64)
    shape = axes.shape(scene)
    curve = additive_split(model.expected, scene, ladder, medians.points)
    ladder_ms, base_ms = _parts(curve.ladder_ms(totals), curve.base_ms(points))
    node_ladder = np.interp(points[:, 0] + points[:, 2], totals, ladder_ms)
    nodes = smooth_residuals(axes, scene, ladder, ladder_ms, base_ms, node_ladder, medians, step_totals, strength)
    # Base is an increment on top of the ladder: the offset makes its closure relative to the sum.
    offset = float(np.median(ladder_ms))
    closed_ladder = np.maximum(isotonic_projection(nodes.ladder, nodes.ladder_measured), SMALLEST_MS)
    closed_base = isotonic_projection(nodes.base, nodes.base_measured, offset)
    if isinstance(scale, Spread):
        node_ladder = np.interp(points[:, 0] + points[:, 2], totals, closed_ladder).reshape(shape)
        scales = spread_parts(
            scale.at(points, model.doubt(points)).reshape(shape), closed_ladder, node_ladder, closed_base
        )
        scales = scales[0], _ordered(scales, closed_ladder, closed_base, nodes.base_measured, scale.usual)
    else:
        tail_ladder, tail_base = _tail(model, ladder_ms, base_ms, totals, points)
        scales = (
            scale_of(scale, closed_ladder, ladder_ms, tail_ladder),
            scale_of(scale, closed_base, base_ms.reshape(shape), tail_base.reshape(shape)),
        )
    return SceneSurfaces(
        Surface(nearest_ticks(closed_ladder), nearest_ticks(closed_base)),
        Surface(ticks_up(scales[0]), ticks_up(scales[1])),
        nodes,
    )


def _ordered(
    scales: tuple[Millis, Millis], ladder_ms: Millis, base_ms: Millis, measured: NDArray[np.bool_], multiplier: float
) -> Millis:
    """The base's scale such that the bound of `multiplier` keeps the order: moved up and down, as E is.

    Left to the bound's closure it would only be moved up: a noisy region would be paid for by all larger batches.
    """
    offset = float(np.median(ladder_ms + multiplier * scales[0]))
    bound_ms = isotonic_projection(base_ms + multiplier * scales[1], measured, offset)
    return np.maximum(bound_ms - base_ms, 0.0) / multiplier


def _tail(
    model: SceneModel, ladder_ms: Millis, base_ms: Millis, totals: NDArray[np.int64], points: Points
) -> tuple[Millis, Millis]:
    if isinstance(model.tail, Lift):
        return model.tail.constant_ms + model.tail.factor * ladder_ms, model.tail.factor * base_ms
    return _parts(model.tail.ladder_ms(totals), model.tail.base_ms(points))


def _parts(ladder_ms: Millis, base_ms: Millis) -> tuple[Millis, Millis]:
    """Ladder and base share a constant: the base is 0 at its lowest corner."""
    lowest = float(base_ms[0])
    return np.maximum(ladder_ms + lowest, SMALLEST_MS), base_ms - lowest
