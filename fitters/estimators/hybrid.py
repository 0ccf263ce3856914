"""`hybrid`: a trend that extrapolates times a residual that is free where there is data.

Trend: non-negative least squares of the relative error on trend_features.py, Huber weights. Trees and grids
alone lose when the load shifts out of what they saw, lines alone lose on curvature. Residual: log(T / trend),
not constrained (the table's closure orders it), clipped to what was seen: gradient boosting where values are
many, a smooth field where points lie on a grid, there of what boosting leaves when the grid is large. The size of
the boosting, none included, is decided by held-out points and held-out values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...tables.batch import Scene
from ...tables.grid import Ladder, Points
from ..folds import Mask, point_folds, value_folds
from ..robust import huber_weights
from ..rows import Rows, at_most, point_medians
from .boosted import PARAMETERS, boost, inputs
from .estimator import Millis, SceneModel
from .grid_field import GridField, fit_field, grid_of
from .least_squares import non_negative
from .tails import lift
from .trend_features import trend_features

REWEIGHTS = 3
BOOSTING = PARAMETERS | {"learning_rate": 0.06, "min_data_in_leaf": 8, "lambda_l2": 1.0}
STAGES = (50, 200, 800)  # trees
LEAVES = (8, 31)  # of a tree: how many inputs act together
BETTER = 0.98  # more must lower the held-out error to this share of it
MANY = 3000  # points that choose, of more a draw; from as many on one fold of a kind says enough
SMALL_GRID = 200  # cells up to which the field stands alone
CLIP = (0.001, 0.999)  # quantiles of the residual that a prediction keeps to

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HybridCurve:
    """trend . weights times exp(residual)."""

    weights: Floats
    booster: Any  # None: no boosting
    field: GridField | None
    low: float
    high: float

    def total_ms(self, points: Points) -> Millis:
        features = trend_features(points)
        residual = np.zeros(len(points))
        if self.booster is not None:
            residual += self.booster.predict(inputs(points))
        if self.field is not None:
            residual += self.field.at(points)
        return np.asarray(features @ self.weights * np.exp(np.clip(residual, self.low, self.high)))


def hybrid(rows: Rows, ladders: Mapping[Scene, Ladder]) -> dict[Scene, SceneModel]:
    """One trend and one boosting over all scenes, a field in each scene whose points lie on a grid."""
    medians = point_medians(rows)
    weights = _trend(medians)
    left = np.log(medians.latency_ms / (trend_features(medians.points) @ weights))
    few = at_most(medians, MANY)
    trees, leaves = _size(few, left[np.isin(medians.point_id, few.point_id)])
    booster = _boost(medians.points, left, trees, leaves) if trees else None
    models = {}
    for scene in ladders:
        own, here = rows.scene(scene), medians.scene(scene)
        field, used = None, booster
        axes = grid_of(scene, here.points)
        residual = np.log(here.latency_ms / (trend_features(here.points) @ weights))
        if axes is not None:
            used = booster if len(here) > SMALL_GRID else None
            rest = residual - (used.predict(inputs(here.points)) if used else 0.0)
            field = fit_field(axes, scene, here.points, rest, huber_weights(rest))
        low, high = np.quantile(residual, CLIP).tolist()
        curve = HybridCurve(weights, used, field, low, high)
        shown = {"trend_terms": float((weights > 0).sum()), "trees": float(trees), "leaves": float(leaves)}
        models[scene] = SceneModel(
            curve, lift(own, curve.total_ms(own.points)), shown | {"field": float(axes is not None)}
        )
    return models


def _trend(rows: Rows) -> Floats:
    """Weights >= 0 of the trend's features, by least squares of the relative error with Huber weights."""
    relative = trend_features(rows.points) / rows.latency_ms[:, None]
    scale = relative.max(axis=0)
    scale[scale == 0] = 1.0
    relative = relative / scale
    weight = np.ones(len(rows))
    found = np.zeros(relative.shape[1])
    for _ in range(1 + REWEIGHTS):
        root = np.sqrt(weight)
        found = non_negative(relative * root[:, None], root)
        weight = huber_weights(1.0 - relative @ found)
    return np.asarray(found / scale)


def _size(rows: Rows, left: Floats) -> tuple[int, int]:
    """Trees and their leaves, of STAGES and LEAVES, whose residual is smallest on held-out points and values.

    Both kinds count alike: large trees know the neighbours of what they saw best and the gaps between values least.
    Ties go to fewer; no trees at all is the first candidate.
    """
    some = slice(None if len(rows) < MANY else 1)
    kinds = [[held for held in folds if held.any()][some] for folds in (point_folds(rows), value_folds(rows))]
    none = float(np.mean([np.mean([np.abs(left[held]).mean() for held in kind]) for kind in kinds]))
    best, best_error = (0, 0), none
    for leaves in LEAVES:
        before = none
        for trees in STAGES:
            error = float(np.mean([np.mean([_off(rows, left, h, trees, leaves) for h in kind]) for kind in kinds]))
            if error >= BETTER * before:
                break
            before = error
            if error < BETTER * best_error:
                best, best_error = (trees, leaves), error
    return best


def _off(rows: Rows, left: Floats, held: Mask, trees: int, leaves: int) -> float:
    booster = _boost(rows.points[~held], left[~held], trees, leaves)
    return float(np.mean(np.abs(left[held] - booster.predict(inputs(rows.points[held])))))


def _boost(points: Points, left: Floats, trees: int, leaves: int) -> Any:
    return boost(inputs(points), left, huber_weights(left), {**BOOSTING, "num_leaves": leaves}, trees)
