"""`hybrid`: trends that extrapolate times residuals that are free where there is data.

Trend: non-negative least squares of the relative error on trend_features.py, Huber weights. Trees and grids
alone lose when the load shifts out of what they saw, lines alone lose on curvature. Residual: log(T / trend) by
kriging.py, not constrained (the table's closure orders it), clipped to what was seen, and only where it lowers the
error at held-out points and values.

Where many columns leave something to a residual, a second trend of few columns with its own residual is fitted, and the
answer is the geometric mean of both. Where data is dense they agree. In gaps each errs its own way, which no data can
tell apart: weights learnt on held-out points did worse than equal ones, as they often do (Timmermann 2006, Forecast
combinations). Past the data the many columns go on alone: few take the bend from streaming weights to arithmetic for a
parabola.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...tables.batch import Scene
from ...tables.grid import Ladder, Points
from ..folds import value_folds
from ..numerics import robust_nnls
from ..rows import Rows, point_medians
from .estimator import Millis, SceneModel
from .kriging import Kriging, fit_kriging
from .tails import lift
from .trend_features import few_trend_features, trend_features

ASKED = 500  # points of one axis' values of which nothing is known
BETTER = 0.98  # share of the trend's own held-out error that the residual must leave at most
CLIP = (0.001, 0.999)  # quantiles of the residual that a prediction keeps to

Floats = NDArray[np.float64]
Columns = Callable[[Points], Floats]


@dataclass(frozen=True, slots=True)
class Part:
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
    """The geometric mean of both parts, and past the box low..high of n, k, c, u, (4,), what `many` adds to it."""

    many: Part
    few: Part
    low: NDArray[np.int64]
    high: NDArray[np.int64]

    def total_ms(self, points: Points) -> Millis:
        many, apart = self._answers(points)
        return np.asarray(np.exp(many + apart / 2))

    def doubt(self, points: Points) -> Floats:
        """How far each part's answer lies from their mean."""
        return np.asarray(np.abs(self._answers(points)[1]) / 2)

    def _answers(self, points: Points) -> tuple[Floats, Floats]:
        """Log time of `many`, and how far that of `few` lies from it at the nearest point inside the box."""
        inside = np.clip(points, self.low, self.high)
        past = (inside != points).any(axis=1)
        many = self.many.log_ms(points)
        at_the_edge = many.copy()
        at_the_edge[past] = self.many.log_ms(inside[past])
        return many, self.few.log_ms(inside) - at_the_edge


def hybrid(rows: Rows, ladders: Mapping[Scene, Ladder]) -> dict[Scene, SceneModel]:
    """One curve over all scenes."""
    medians, counts = _batches(rows)
    many = _part(trend_features, medians, counts)
    few = _part(few_trend_features, medians, counts) if many.residual is not None else None
    curve: Part | HybridCurve = many
    if few is not None and few.residual is not None:  # a bare trend of few columns would only spoil the other
        curve = HybridCurve(many, few, medians.points.min(axis=0), medians.points.max(axis=0))
    shown = {"trend_terms": float((many.weights > 0).sum()), "residual": float(many.residual is not None)}
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


def _part(columns: Columns, rows: Rows, counts: Floats) -> Part:
    known = columns(rows.points)
    weights = robust_nnls(known, rows.latency_ms, counts=counts)
    left = np.log(rows.latency_ms / (known @ weights))
    return Part(columns, weights, _residual(rows, left, counts), *np.quantile(left, CLIP).tolist())


def _residual(rows: Rows, left: Floats, counts: Floats) -> Kriging | None:
    """What lowers the mean absolute error of `left` at points predicted from the others, and at values of which
    nothing is known, both alike."""
    residual = fit_kriging(rows.points, left, counts)
    errors = [_errors(left, residual.left_out(), counts)]
    rng = np.random.default_rng(0)
    for held in value_folds(rows):
        if 0 < held.sum() < len(rows):
            some = rng.permutation(np.flatnonzero(held))[:ASKED]
            errors.append(_errors(left[some], residual.without(held).at(rows.points[some]), counts[some]))
    without, with_ = errors[0] + (np.mean(errors[1:], axis=0) if len(errors) > 1 else 0.0)
    return residual if with_ < BETTER * without else None


def _errors(left: Floats, said: Floats, counts: Floats) -> Floats:
    """Mean absolute error without and with what the residual says, (2,)."""
    return np.average(np.abs([left, left - said]), axis=1, weights=counts)
