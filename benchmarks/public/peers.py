"""What others predict iterations with, each refitted on the rows it is given. None of them knows a bound of its own.

A peer takes rows and gives a function of points; NaN where it has no answer.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from chunkfit.fitters.estimators.features import features
from chunkfit.fitters.rows import Rows
from chunkfit.tables.batch import Scene
from chunkfit.tables.grid import Points, batch_totals, scene_of

from .interpolation import Interpolated, interpolated, nearest

Floats = NDArray[np.float64]
Predictor = Callable[[Points], Floats]
Peer = Callable[[Rows], Predictor]

THIN = 60  # rows under which SlidingServe's scene takes the model of all rows
SEAM = 512  # tokens at which QoServe changes from one line to the other


def forest(rows: Rows) -> Predictor:
    """Vidur: a random forest on the raw numbers."""
    from sklearn.ensemble import RandomForestRegressor

    model = RandomForestRegressor(100, random_state=0, n_jobs=1).fit(rows.points, np.log(rows.latency_ms))
    return lambda points: np.exp(model.predict(points))


def lightgbm(rows: Rows) -> Predictor:
    """Gradient boosting on the raw numbers, no order asked of it."""
    from lightgbm import LGBMRegressor

    model = LGBMRegressor(n_estimators=300, min_child_samples=5, random_state=0, n_jobs=1, verbosity=-1)
    model.fit(rows.points, np.log(rows.latency_ms))
    return lambda points: np.exp(model.booster_.predict(points))


def seven_features(rows: Rows) -> Predictor:
    """SlidingServe: a line in seven features for each scene; a thin scene takes that of all rows."""
    whole = _line(_with_constant(features(rows.points)), rows.latency_ms)
    lines = dict.fromkeys(Scene, whole)
    for scene in rows.scenes():
        own = rows.scene(scene)
        if len(own) >= THIN:
            lines[scene] = _line(_with_constant(features(own.points)), own.latency_ms)

    def predict(points: Points) -> Floats:
        names, columns = scene_of(points), _with_constant(features(points))
        found = np.empty(len(points))
        for scene, line in lines.items():
            here = names == scene.value
            found[here] = columns[here] @ line
        return found

    return predict


def two_lines(rows: Rows) -> Predictor:
    """QoServe: one line up to 512 tokens in the batch and another above."""

    def columns(points: Points) -> Floats:
        n, k, c, u = points.T.astype(np.float64)
        return _with_constant(np.column_stack([n, c, n * k, c * (u + c / 2)]))

    low = batch_totals(rows.points) <= SEAM
    x = columns(rows.points)
    lines = [_line(x[side], rows.latency_ms[side]) if side.any() else None for side in (low, ~low)]

    def predict(points: Points) -> Floats:
        below, x = batch_totals(points) <= SEAM, columns(points)
        small, large = (line if line is not None else np.full(x.shape[1], np.nan) for line in lines)
        return np.where(below, x @ small, x @ large)

    return predict


def sum_of_parts(rows: Rows) -> Predictor:
    """A mixed iteration as its decodes alone plus its chunk alone, each interpolated; NaN without such rows."""
    parts: dict[Scene, Interpolated] = {
        scene: interpolated(rows.scene(scene)) for scene in (Scene.DECODE, Scene.PREFILL) if len(rows.scene(scene))
    }

    def predict(points: Points) -> Floats:
        found = np.zeros(len(points))
        for scene, columns in ((Scene.DECODE, (0, 1)), (Scene.PREFILL, (2, 3))):
            there = points[:, columns[0]] > 0
            only = np.zeros_like(points[there])
            only[:, columns] = points[there][:, columns]
            found[there] += parts[scene](only) if scene in parts else np.nan
        return found

    return predict


def _with_constant(columns: Floats) -> Floats:
    return np.column_stack([np.ones(len(columns)), columns])


def _line(x: Floats, y: Floats) -> Floats:
    """Least squares of the relative error: of the absolute one short iterations would count for nothing."""
    scale = np.maximum(np.abs(x).max(axis=0), 1e-12)
    found, *_ = np.linalg.lstsq(x / scale / y[:, None], np.ones(len(y)), rcond=None)
    return np.asarray(found / scale)


def _by_scene(one: Callable[[Rows], Interpolated]) -> Peer:
    def peer(rows: Rows) -> Predictor:
        parts = {scene: one(rows.scene(scene)) for scene in rows.scenes()}

        def predict(points: Points) -> Floats:
            names, found = scene_of(points), np.full(len(points), np.nan)
            for scene, part in parts.items():
                here = names == scene.value
                if here.any():
                    found[here] = part(points[here])
            return found

        return predict

    return peer


PEERS: dict[str, Peer] = {
    "random forest": forest,
    "LightGBM": lightgbm,
    "seven features": seven_features,
    "two lines": two_lines,
    "nearest": _by_scene(nearest),
    "linear interpolation": _by_scene(interpolated),
    "sum of parts": sum_of_parts,
}
