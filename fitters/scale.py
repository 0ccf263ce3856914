"""How wide the noise is at a batch, up to one factor: the shape of the margin before it is calibrated.

Two candidates: `proportional` (scale = E) and `tail` (scale = the estimator's 0.99 tail less its median,
never below a small share of E). The one with the smaller held-out pinball loss at 0.99 is taken, ties to
the simpler: a 0.99 quantile of seven features rests on few rows, and a wrong shape only inflates the bound.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..tables.batch import Scene
from ..tables.grid import Ladder, scene_of
from .estimator import Estimator, SceneModel, total_ms
from .metrics import pinball
from .rows import Rows

SCALES = ("proportional", "tail")
SMALLEST_SHARE = 0.002  # of E: the scale is positive everywhere
FOLDS = 4
TIE = 0.02  # relative difference in pinball loss below which the simpler wins
Millis = NDArray[np.float64]


def scale_of(kind: str, expected_ms: Millis, model_ms: Millis, tail_ms: Millis) -> Millis:
    """Scale where the table expects `expected_ms`; the tail keeps its distance to the model's median.

    All of one shape; applies to ladder and base alike, since both are parts of the same sum.
    """
    if kind == "proportional":
        return expected_ms
    ratio = np.divide(expected_ms, model_ms, out=np.ones_like(expected_ms), where=model_ms > 0)
    return np.maximum((tail_ms - model_ms) * ratio, 0.0) + SMALLEST_SHARE * expected_ms


def choose_scale(estimator: Estimator, rows: Rows, ladders: Mapping[Scene, Ladder]) -> tuple[str, dict[str, float]]:
    """(winner, held-out pinball loss at 0.99 in percent by candidate); folds hold whole points."""
    ids = np.unique(rows.point_id)
    fold_of = dict(zip(ids.tolist(), (np.random.default_rng(0).permutation(len(ids)) % FOLDS).tolist(), strict=True))
    fold = np.asarray([fold_of[i] for i in rows.point_id.tolist()])
    losses: dict[str, list[float]] = {kind: [] for kind in SCALES}
    for f in range(FOLDS):
        learn, held = rows.where(fold != f), rows.where(fold == f)
        models = estimator(learn, ladders)
        for kind in SCALES:
            median, scale = _predict(models, learn, kind)
            multiplier = np.quantile((learn.latency_ms - median) / scale, 0.99)
            median, scale = _predict(models, held, kind)
            losses[kind].append(pinball((held.latency_ms - median - multiplier * scale) / held.latency_ms, 0.99))
    scores = {kind: 100 * float(np.mean(loss)) for kind, loss in losses.items()}
    return ("tail" if scores["tail"] < (1 - TIE) * scores["proportional"] else "proportional"), scores


def _predict(models: Mapping[Scene, SceneModel], rows: Rows, kind: str) -> tuple[Millis, Millis]:
    median, tail = np.zeros(len(rows)), np.zeros(len(rows))
    names = scene_of(rows.points)
    for scene, model in models.items():
        here = names == scene.value
        median[here] = total_ms(model.expected, rows.points[here])
        tail[here] = total_ms(model.tail, rows.points[here])
    return median, scale_of(kind, median, median, tail)
