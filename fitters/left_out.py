"""What an estimator says of points that it has not seen: each point once, from the other folds (folds.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..tables.batch import Scene
from ..tables.grid import Ladder, Points, scene_of
from .estimators.estimator import Estimator, Millis, SceneModel
from .folds import Mask, between, point_folds
from .rows import Rows, at_most

MOST_POINTS = 6000  # that are left out, drawn at random: each fold of them is one more fit


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Rows of scenes that had a model; all arrays (rows,).

    fold: number of the fold that held the row out. doubt: of what was said, relative (estimator.py). between: its
    batch lies between those that were known then.
    """

    rows: Rows
    fold: NDArray[np.int64]
    expected_ms: Millis
    tail_ms: Millis
    doubt: NDArray[np.float64]
    between: Mask

    def where(self, mask: Mask) -> LeftOut:
        return LeftOut(
            self.rows.where(mask),
            self.fold[mask],
            self.expected_ms[mask],
            self.tail_ms[mask],
            self.doubt[mask],
            self.between[mask],
        )


def left_out(estimator: Estimator, rows: Rows, ladders: Mapping[Scene, Ladder]) -> LeftOut:
    """Of MOST_POINTS points of `rows` at most. Raises what the estimator raises."""
    rows = at_most(rows, MOST_POINTS)
    fold, inside = np.full(len(rows), -1), np.zeros(len(rows), dtype=np.bool_)
    median, tail, doubt = (np.full(len(rows), np.nan) for _ in range(3))
    for number, held in enumerate(point_folds(rows)):
        known = rows.where(~held)
        models = estimator(known, {scene: ladders[scene] for scene in known.scenes()})
        asked = rows.points[held]
        median[held] = answers(models, asked, SceneModel.expected_ms)
        tail[held] = answers(models, asked, SceneModel.tail_ms)
        doubt[held] = answers(models, asked, SceneModel.doubt)
        inside |= held & between(known, rows.points)
        fold[held] = number
    return LeftOut(rows, fold, median, tail, doubt, inside).where(np.isfinite(median))


def answers(
    models: Mapping[Scene, SceneModel], points: Points, ask: Callable[[SceneModel, Points], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """What `ask` gives of each point's model, (points,); NaN in scenes without a model."""
    given = np.full(len(points), np.nan)
    names = scene_of(points)
    for scene, model in models.items():
        here = names == scene.value
        if here.any():
            given[here] = ask(model, points[here])
    return given
