"""`scene_experts`: per scene a non-negative model of the seven features and of n + c; thin scenes share one.

SlidingServe section 3.2 with two changes. Coefficients are >= 0, so every expert is non-decreasing as the batch gains
work, by construction. Next to the seven features stands a non-decreasing ladder of n + c, free at the table's ladder
knots: seven features can neither bend from streaming weights to arithmetic nor step. Without the ladder the bend goes
into c^2 (on a known truth the P90 error of prefill was 25%).

Fitted by non-negative least squares of the relative error with Huber weights, the ladder's curvature lightly penalised.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ...tables.batch import Scene
from ...tables.grid import Ladder, batch_totals
from ..numerics import robust_nnls
from ..rows import Rows
from .estimator import SceneModel
from .features import FeatureCurve, features

MIN_SCENE_ROWS = 60  # with fewer, the expert of all rows serves the scene
HUBER_ROUNDS = 4
# Penalty on the change of the ladder's relative rise from knot to knot, in rows: a bend costs less than the rows around
# it gain, noise of single knots costs more.
CURVATURE_ROWS = 1.0
DENSE_TOTALS = 16  # up to this total the ladder has a knot at every one


def scene_experts(rows: Rows, ladders: Mapping[Scene, Ladder]) -> dict[Scene, SceneModel]:
    """One model per scene of `ladders`; scenes with few rows get the model of all rows."""
    longest = max(ladders.values(), key=lambda ladder: ladder.batch_tokens[-1])
    models = {}
    for scene, ladder in ladders.items():
        scene_rows = rows.scene(scene)
        enough = len(scene_rows) >= MIN_SCENE_ROWS
        curve = ladder_and_features(scene_rows if enough else rows, scene, ladder if enough else longest)
        models[scene] = SceneModel(curve, curve.named())
    return models


def ladder_and_features(rows: Rows, scene: Scene, ladder: Ladder, curvature: float = CURVATURE_ROWS) -> FeatureCurve:
    """The median of `rows`: a free non-decreasing ladder at the ladder's knots and the features, all >= 0.

    curvature: weight of the penalty on the ladder's bends, in rows.
    """
    knots = np.asarray(ladder.batch_tokens, dtype=np.float64)
    totals = np.clip(batch_totals(rows.points).astype(np.float64), knots[0], knots[-1])
    # Column 0 is the ladder's first value, column j its rise from knot j - 1 to knot j.
    rises = np.clip((totals[:, None] - knots[:-1]) / np.diff(knots), 0.0, 1.0)
    columns = np.column_stack([np.ones(len(rows)), rises, features(rows.points)])
    penalty = curvature**0.5 * _curvature(knots, totals, rows.latency_ms, columns.shape[1])
    coefficients = robust_nnls(columns / rows.latency_ms[:, None], penalty=penalty, rounds=HUBER_ROUNDS)
    knot_ms = np.cumsum(coefficients[: len(knots)])
    return FeatureCurve(scene, knots, knot_ms, coefficients[len(knots) :])


def _curvature(
    knots: NDArray[np.float64], totals: NDArray[np.float64], latency_ms: NDArray[np.float64], width: int
) -> NDArray[np.float64]:
    """Rows of the penalty: how the ladder's rise per relative step of n + c changes from knot to knot,
    relative to the time there. Neighbours one token apart are exempt past DENSE_TOTALS: they are sides of a step."""
    order = np.argsort(totals)
    # What the ladder alone costs at a total is at most the least time seen from there on.
    least = np.minimum.accumulate(latency_ms[order][::-1])[::-1]
    level = np.interp(knots, totals[order], least)
    step = np.log(knots[1:] / knots[:-1])
    penalty = []
    for j in range(len(knots) - 2):
        if knots[j] > DENSE_TOTALS and min(knots[j + 1] - knots[j], knots[j + 2] - knots[j + 1]) <= 1:
            continue
        row = np.zeros(width)
        row[1 + j], row[2 + j] = -1 / step[j], 1 / step[j + 1]
        penalty.append(min(step[j], step[j + 1]) / level[j + 1] * row)
    return np.asarray(penalty).reshape(-1, width)
