"""An estimator's models and the data's residuals as the table's surfaces, in ticks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..tables.batch import Scene
from ..tables.closure import close_expected
from ..tables.fixed_point import nearest_ticks, ticks_up
from ..tables.grid import Axes, Ladder, Surface, node_points
from .estimators.estimator import Lift, SceneModel
from .node_residuals import Nodes, corrected
from .projection import split
from .rows import Rows
from .scale import scale_of

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
    scale: str,
    step_totals: Sequence[int],
    strength: float | None = None,
) -> SceneSurfaces:
    """Surfaces of one scene from its model and the point medians of its fit rows; strength as in `corrected`."""
    points = node_points(axes, scene)
    totals = np.asarray(ladder.batch_tokens, dtype=np.int64)
    shape = axes.shape(scene)
    curve = split(model.expected, scene, ladder, medians.points)
    ladder_ms, base_ms = _parts(curve.ladder_ms(totals), curve.base_ms(points))
    if isinstance(model.tail, Lift):
        tail_ladder, tail_base = model.tail.constant_ms + model.tail.factor * ladder_ms, model.tail.factor * base_ms
    else:
        tail_ladder, tail_base = _parts(model.tail.ladder_ms(totals), model.tail.base_ms(points))
    node_ladder = np.interp(points[:, 0] + points[:, 2], totals, ladder_ms)
    nodes = corrected(axes, scene, ladder, ladder_ms, base_ms, node_ladder, medians, step_totals, strength)
    # Base is an increment on top of the ladder: the offset makes its closure relative to the sum.
    offset = float(np.median(ladder_ms))
    closed_ladder = np.maximum(close_expected(nodes.ladder, nodes.ladder_measured), SMALLEST_MS)
    closed_base = close_expected(nodes.base, nodes.base_measured, offset)
    return SceneSurfaces(
        Surface(nearest_ticks(closed_ladder), nearest_ticks(closed_base)),
        Surface(
            ticks_up(scale_of(scale, closed_ladder, ladder_ms, tail_ladder)),
            ticks_up(scale_of(scale, closed_base, base_ms.reshape(shape), tail_base.reshape(shape))),
        ),
        nodes,
    )


def _parts(
    ladder_ms: NDArray[np.float64], base_ms: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ladder and base share a constant: the base is 0 at its lowest corner."""
    lowest = float(base_ms[0])
    return np.maximum(ladder_ms + lowest, SMALLEST_MS), base_ms - lowest
