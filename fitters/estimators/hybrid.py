"""`hybrid`: a trend that extrapolates times a residual that follows the data.

Trend: non-negative least squares of the relative error on `trend_features`, Huber weights. Trees and grids alone lose
when the load shifts out of the measured range, lines alone lose on curvature. Residual: log(T / trend) by kriging.py,
not constrained (the table orders it), clipped to the residuals seen, and used only where it lowers the error at
held-out points and values.

Where the 101-column trend leaves a residual, a second model with a 10-column trend and its own residual is fitted, and
the answer is the geometric mean of both. Where data is dense they agree. In gaps each errs in its own way, which no
data can tell apart: weights learnt on held-out points did worse than equal ones, as they often do (Timmermann 2006,
Forecast combinations). Outside the measured range only the 101-column trend is used: the 10-column one fits the
bandwidth-to-compute bend as a parabola and extrapolates too steeply.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...tables.batch import Scene
from ...tables.grid import Ladder, Points
from ..cross_validation import value_folds
from ..numerics import robust_nnls, unit_columns
from ..rows import Rows, point_medians
from .estimator import Millis, SceneModel
from .features import few_trend_features, trend_features
from .kriging import Kriging, fit_kriging

MOST_HELD_OUT_PER_AXIS = 500  # points of one value fold that are predicted
WORTHWHILE = 0.98  # the residual is used when it leaves at most this share of the trend's own held-out error
CLIP_QUANTILES = (0.001, 0.999)  # of the residuals seen: limits of a predicted one

Floats = NDArray[np.float64]
Columns = Callable[[Points], Floats]


@dataclass(frozen=True, slots=True)
class TrendModel:
    """columns . weights times exp(residual), the residual clipped to low..high."""

    columns: Columns
    weights: Floats
    residual: Kriging | None
    low: float
    high: float

    def log_ms(self, points: Points) -> Floats:
        trend = np.log(self.columns(points) @ self.weights)
        return trend if self.residual is None else trend + np.clip(self.residual.at(points), self.low, self.high)

    def total_ms(self, points: Points) -> Millis:
        return np.asarray(np.exp(self.log_ms(points)))


@dataclass(frozen=True, slots=True)
class HybridCurve:
    """The geometric mean of the models of many and of few columns inside the box low..high of n, k, c, u, (4,).

    Outside the box: its value at the nearest point inside, times the growth of `many` from there.
    """

    many: TrendModel
    few: TrendModel
    low: NDArray[np.int64]
    high: NDArray[np.int64]

    def total_ms(self, points: Points) -> Millis:
        many, difference = self._answers(points)
        return np.asarray(np.exp(many + difference / 2))

    def uncertainty(self, points: Points) -> Floats:
        """Half the distance between the two models' answers, relative."""
        return np.asarray(np.abs(self._answers(points)[1]) / 2)

    def _answers(self, points: Points) -> tuple[Floats, Floats]:
        """Log time of `many`; and log time of `few` minus that of `many` at the nearest point inside the box."""
        inside = np.clip(points, self.low, self.high)
        past = (inside != points).any(axis=1)
        many = self.many.log_ms(points)
        at_the_edge = many.copy()
        at_the_edge[past] = self.many.log_ms(inside[past])
        return many, self.few.log_ms(inside) - at_the_edge


def hybrid(rows: Rows, ladders: Mapping[Scene, Ladder]) -> dict[Scene, SceneModel]:
    """One curve over all scenes."""
    medians, counts = _batches(rows)
    many = _trend_model(trend_features, medians, counts)
    few = _trend_model(few_trend_features, medians, counts) if many.residual is not None else None
    curve: TrendModel | HybridCurve = many
    if few is not None and few.residual is not None:  # a trend of few columns without a residual is worse than none
        curve = HybridCurve(many, few, medians.points.min(axis=0), medians.points.max(axis=0))
    shown = {"trend_terms": float((many.weights > 0).sum()), "residual": float(many.residual is not None)}
    return {scene: SceneModel(curve, shown) for scene in ladders}


def _batches(rows: Rows) -> tuple[Rows, Floats]:
    """One row for each distinct (n, k, c, u), the median of its points' medians; how many points it had."""
    medians = point_medians(rows)
    _, ids, counts = np.unique(medians.points, axis=0, return_inverse=True, return_counts=True)
    return point_medians(replace(medians, point_id=ids.ravel().astype(np.int64))), counts.astype(np.float64)


def _trend_model(columns: Columns, rows: Rows, counts: Floats) -> TrendModel:
    known = columns(rows.points)
    relative, scale = unit_columns(known / rows.latency_ms[:, None])
    weights = robust_nnls(relative, counts=counts) / scale
    residuals = np.log(rows.latency_ms / (known @ weights))
    return TrendModel(
        columns, weights, _residual(rows, residuals, counts), *np.quantile(residuals, CLIP_QUANTILES).tolist()
    )


def _residual(rows: Rows, residuals: Floats, counts: Floats) -> Kriging | None:
    """Kriging of `residuals` if that lowers their mean absolute error enough, at held-out points and values alike."""
    residual = fit_kriging(rows.points, residuals, counts)
    errors = [_errors(residuals, residual.leave_one_out(), counts)]
    rng = np.random.default_rng(0)
    for held in value_folds(rows):
        if 0 < held.sum() < len(rows):
            some = rng.permutation(np.flatnonzero(held))[:MOST_HELD_OUT_PER_AXIS]
            errors.append(_errors(residuals[some], residual.without(held).at(rows.points[some]), counts[some]))
    without, with_ = errors[0] + (np.mean(errors[1:], axis=0) if len(errors) > 1 else 0.0)
    return residual if with_ < WORTHWHILE * without else None


def _errors(residuals: Floats, predicted: Floats, counts: Floats) -> Floats:
    """Mean absolute error without and with the predicted residual, (2,)."""
    return np.average(np.abs([residuals, residuals - predicted]), axis=1, weights=counts)
