"""`hybrid`: a trend that extrapolates times a residual that is free where there is data.

Trend: non-negative least squares of the relative error on trend_features.py, Huber weights. Trees and grids
alone lose when the load shifts out of what they saw, lines alone lose on curvature. Residual: log(T / trend) by
kriging.py, not constrained (the table's closure orders it), clipped to what was seen, and only where it lowers the
error at held-out points and values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...tables.batch import Scene
from ...tables.grid import Ladder, Points
from ..folds import Mask, value_folds
from ..robust import huber_weights
from ..rows import Rows, point_medians
from .estimator import Millis, SceneModel
from .kriging import Kriging, fit_kriging
from .least_squares import non_negative
from .tails import lift
from .trend_features import trend_features

REWEIGHTS = 3
BETTER = 0.98  # share of the trend's own held-out error that the residual must leave at most
CLIP = (0.001, 0.999)  # quantiles of the residual that a prediction keeps to

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HybridCurve:
    """trend . weights times exp(residual)."""

    weights: Floats
    residual: Kriging | None
    low: float
    high: float

    def total_ms(self, points: Points) -> Millis:
        trend = trend_features(points) @ self.weights
        if self.residual is None:
            return np.asarray(trend)
        return np.asarray(trend * np.exp(np.clip(self.residual.at(points), self.low, self.high)))


def hybrid(rows: Rows, ladders: Mapping[Scene, Ladder]) -> dict[Scene, SceneModel]:
    """One trend and one residual over all scenes."""
    medians, counts = _batches(rows)
    weights = _trend(medians, counts)
    left = np.log(medians.latency_ms / (trend_features(medians.points) @ weights))
    residual = _residual(medians, left, counts)
    curve = HybridCurve(weights, residual, *np.quantile(left, CLIP).tolist())
    shown = {"trend_terms": float((weights > 0).sum()), "residual": float(residual is not None)}
    return {
        scene: SceneModel(curve, lift(own, curve.total_ms(own.points)), shown)
        for scene in ladders
        for own in [rows.scene(scene)]
    }


def _batches(rows: Rows) -> tuple[Rows, Floats]:
    """One row for each distinct (n, k, c, u), the median of its points' medians; how many points it had."""
    medians = point_medians(rows)
    _, ids, counts = np.unique(medians.points, axis=0, return_inverse=True, return_counts=True)
    return point_medians(replace(medians, point_id=ids.ravel().astype(np.int64))), counts.astype(np.float64)


def _trend(rows: Rows, counts: Floats) -> Floats:
    """Weights >= 0 of the trend's features, by least squares of the relative error with Huber weights."""
    relative = trend_features(rows.points) / rows.latency_ms[:, None]
    scale = relative.max(axis=0)
    scale[scale == 0] = 1.0
    relative = relative / scale
    weight = np.ones(len(rows))
    found = np.zeros(relative.shape[1])
    for _ in range(1 + REWEIGHTS):
        root = np.sqrt(weight * counts)
        found = non_negative(relative * root[:, None], root)
        weight = huber_weights(1.0 - relative @ found)
    return np.asarray(found / scale)


def _residual(rows: Rows, left: Floats, counts: Floats) -> Kriging | None:
    """What lowers the mean absolute error of `left` at points predicted from the others, and at values of which
    nothing is known, both alike."""
    residual = fit_kriging(rows.points, left, counts)
    folds: list[Mask | None] = [None, *(held for held in value_folds(rows) if 0 < held.sum() < len(rows))]
    errors = np.zeros((len(folds), 2))
    for errors_of, held in zip(errors, folds, strict=True):
        of = slice(None) if held is None else held
        errors_of[0] = np.average(np.abs(left[of]), weights=counts[of])
        errors_of[1] = np.average(np.abs(left[of] - residual.left_out(held)), weights=counts[of])
    without, with_ = errors[0] + (errors[1:].mean(axis=0) if len(folds) > 1 else 0.0)
    return residual if with_ < BETTER * without else None
