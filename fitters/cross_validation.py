"""Cross-validation: which rows a fold holds out, and an estimator's out-of-fold predictions.

Folds hold out whole points, bands of values, or sessions, never single rows of a point: a model that has seen rows of a
batch is flattered when it is scored on that batch. Point folds ask about new points among the known ones. Value folds
ask about values of one axis (n, k, c or u) of which nothing is known: every third value, or every third band where
there are many. The largest values are among them, so half of the score is the risk of extrapolation. Where several
profiles were joined, session folds ask about a whole session: its points, and a state of the device unseen so far.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..tables.batch import Scene
from ..tables.grid import Ladder, Points, scene_of
from .estimators.estimator import Estimator, Millis, SceneModel
from .rows import Rows, at_most

POINT_FOLDS = 4
MOST_SESSION_FOLDS = 4
VALUE_STRIDE = 3  # every third value or band is held out
MIN_VALUES = 4  # with fewer, no value lies between others that stay
MOST_GRID_VALUES = 64  # distinct values up to which an axis is a grid
BAND_RATIO = 1.5  # of the ends of a band
MOST_HELD_OUT_POINTS = 6000  # predicted out of fold, drawn at random: each fold is one more fit

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class OutOfFold:
    """Out-of-fold predictions of rows whose scene had a model; all arrays (rows,).

    fold: number of the fold that held the row out. expected_ms: predicted by the model without that fold. uncertainty:
    that model's own, relative (see `SceneModel.uncertainty`). interpolated: the row's batch lies in the box of the
    batches that this model knew.
    """

    rows: Rows
    fold: NDArray[np.int64]
    expected_ms: Millis
    uncertainty: NDArray[np.float64]
    interpolated: Mask

    def where(self, mask: Mask) -> OutOfFold:
        """The rows of `mask`, (rows,)."""
        return OutOfFold(
            self.rows.where(mask),
            self.fold[mask],
            self.expected_ms[mask],
            self.uncertainty[mask],
            self.interpolated[mask],
        )

    def inside(self) -> OutOfFold:
        """The interpolated rows, or all where there is none.

        A fold that lost an outermost batch extrapolates to it, and a table of all rows does not.
        """
        return self.where(self.interpolated) if self.interpolated.any() else self


def out_of_fold(estimator: Estimator, rows: Rows, ladders: Mapping[Scene, Ladder]) -> OutOfFold:
    """Predictions over point folds, of MOST_HELD_OUT_POINTS points at most. Raises what the estimator raises."""
    rows = at_most(rows, MOST_HELD_OUT_POINTS)
    fold, interpolated = np.full(len(rows), -1), np.zeros(len(rows), dtype=np.bool_)
    expected, uncertainty = (np.full(len(rows), np.nan) for _ in range(2))
    for number, held in enumerate(point_folds(rows)):
        known = rows.where(~held)
        models = estimator(known, {scene: ladders[scene] for scene in known.scenes()})
        expected[held] = predictions(models, rows.points[held], SceneModel.expected_ms)
        uncertainty[held] = predictions(models, rows.points[held], SceneModel.uncertainty)
        interpolated |= held & in_box(known, rows.points)
        fold[held] = number
    return OutOfFold(rows, fold, expected, uncertainty, interpolated).where(np.isfinite(expected))


def predictions(
    models: Mapping[Scene, SceneModel], points: Points, predict: Callable[[SceneModel, Points], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """`predict` of each point's model, (points,); NaN in scenes without a model."""
    predicted = np.full(len(points), np.nan)
    names = scene_of(points)
    for scene, model in models.items():
        here = names == scene.value
        if here.any():
            predicted[here] = predict(model, points[here])
    return predicted


def point_folds(rows: Rows) -> list[Mask]:
    """Rows to hold out, POINT_FOLDS times; each point is held out once. The same for the same point ids."""
    ids, inverse = np.unique(rows.point_id, return_inverse=True)
    fold = (np.random.default_rng(0).permutation(len(ids)) % POINT_FOLDS)[inverse]
    return [fold == f for f in range(POINT_FOLDS)]


def value_folds(rows: Rows) -> list[Mask]:
    """Rows to hold out, once for each axis with MIN_VALUES values or more: every third, counted from the last."""
    folds = []
    for axis in range(rows.points.shape[1]):
        values = rows.points[:, axis]
        used = values > 0
        group = _value_group(values, used)
        if len(np.unique(group[used])) >= MIN_VALUES:
            folds.append(used & ((group[used].max() - group) % VALUE_STRIDE == axis % VALUE_STRIDE))
    return folds


def session_folds(rows: Rows) -> list[Mask]:
    """Rows to hold out, each session once, several together where they are many; none where there is one session."""
    sessions, number = np.unique(np.searchsorted(rows.joined, rows.point_id, side="right"), return_inverse=True)
    folds = min(len(sessions), MOST_SESSION_FOLDS)
    return [number % folds == f for f in range(folds)] if folds > 1 else []


def in_box(known: Rows, points: Points) -> Mask:
    """Which points lie in the box of the known ones of their scene, (points,)."""
    names, inside = scene_of(points), np.zeros(len(points), dtype=np.bool_)
    for scene in known.scenes():
        box = known.scene(scene).points
        within = (points >= box.min(axis=0)) & (points <= box.max(axis=0))
        inside |= (names == scene.value) & within.all(axis=1)
    return inside


def _value_group(values: NDArray[np.int64], used: Mask) -> NDArray[np.int64]:
    """Number of each value's grid value or band, counted over the used rows."""
    distinct = np.unique(values[used])
    if len(distinct) > MOST_GRID_VALUES:
        bands: NDArray[np.int64] = np.floor(np.log(np.maximum(values, 1)) / np.log(BAND_RATIO)).astype(np.int64)
        return bands
    return np.asarray(np.searchsorted(distinct, values), dtype=np.int64)
