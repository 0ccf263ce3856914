"""`hybrid`: a trend that extrapolates times a residual that is free where there is data.

Trend: non-negative least squares of the relative error on trend_features.py, Huber weights. Trees and grids
alone lose when the load shifts out of what they saw, lines alone lose on curvature. Residual: log(T / trend),
not constrained (the table's closure orders it), clipped to what was seen: gradient boosting where values are
many, a smooth field where points lie on a grid, both there when the grid is large. How much of the boosting
is taken, none included, is decided by held-out points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tables.batch import Scene
from ..tables.grid import Ladder, Points
from .boosted import PARAMETERS, boost, inputs
from .estimator import Millis, SceneModel
from .folds import point_folds
from .grid_field import GridField, fit_field, grid_of
from .least_squares import non_negative
from .robust import huber_weights
from .rows import Rows, point_medians
from .tails import lift
from .trend_features import trend_features

REWEIGHTS = 3
BOOSTING = PARAMETERS | {"learning_rate": 0.06, "num_leaves": 8, "min_data_in_leaf": 8, "lambda_l2": 1.0}
STAGES = (50, 200, 800)  # trees: as many as held-out points are better with, or none
BETTER = 0.98  # more trees must lower the held-out error to this share of it
MANY = 3000  # points from which one fold says enough
GRID_SHARE = 0.5  # of the boosting on gridded data; the field takes the rest
SMALL_GRID = 200  # cells up to which the field stands alone
CLIP = (0.01, 0.99)  # quantiles of the residual that a prediction keeps to

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HybridCurve:
    """trend . weights times exp(residual)."""

    weights: Floats
    booster: Any  # None: no boosting
    share: float
    field: GridField | None
    low: float
    high: float

    def total_ms(self, points: Points) -> Millis:
        features = trend_features(points)
        residual = np.zeros(len(points))
        if self.booster is not None:
            residual += self.share * np.asarray(self.booster.predict(inputs(points)))
        if self.field is not None:
            residual += self.field.at(points)
        return np.asarray(features @ self.weights * np.exp(np.clip(residual, self.low, self.high)))


def hybrid(rows: Rows, ladders: Mapping[Scene, Ladder]) -> dict[Scene, SceneModel]:
    """One trend and one boosting over all scenes, a field in each scene whose points lie on a grid."""
    medians = point_medians(rows)
    weights = _trend(medians)
    left = np.log(medians.latency_ms / (trend_features(medians.points) @ weights))
    trees = _trees(medians, left)
    booster = _boost(medians.points, left, trees)
    models = {}
    for scene in ladders:
        own, here = rows.scene(scene), medians.scene(scene)
        field, share = None, 1.0
        axes = grid_of(scene, here.points)
        residual = np.log(here.latency_ms / (trend_features(here.points) @ weights))
        if axes is not None:
            share = GRID_SHARE if len(here) > SMALL_GRID else 0.0
            rest = residual - (share * np.asarray(booster.predict(inputs(here.points))) if booster else 0.0)
            field = fit_field(axes, scene, here.points, rest, huber_weights(rest))
        low, high = np.quantile(residual, CLIP).tolist()
        curve = HybridCurve(weights, booster if share else None, share, field, low, high)
        shown = {"trend_terms": float((weights > 0).sum()), "trees": float(trees), "field": float(field is not None)}
        models[scene] = SceneModel(curve, lift(own, curve.total_ms(own.points)), shown)
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


def _trees(rows: Rows, left: Floats) -> int:
    """The number of trees, of STAGES, whose residual is smallest on held-out points; ties go to fewer."""
    best, best_error = 0, float(np.mean(np.abs(left)))
    for stage in STAGES:
        off = []
        for held in point_folds(rows)[: None if len(rows) < MANY else 1]:
            booster = _boost(rows.points[~held], left[~held], stage)
            off.append(np.abs(left[held] - np.asarray(booster.predict(inputs(rows.points[held])))))
        error = float(np.mean(np.concatenate(off)))
        if error >= BETTER * best_error:
            break
        best, best_error = stage, error
    return best


def _boost(points: Points, left: Floats, trees: int) -> Any:
    return boost(inputs(points), left, huber_weights(left), BOOSTING, trees) if trees else None
