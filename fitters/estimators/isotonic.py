"""`isotonic`: no formula. Medians on a grid, made non-decreasing, read linearly between.

Each point of a scene goes to the nearest knot of every axis: the measured values where they form a grid, log-spaced
values otherwise. Cells hold the median, weighted by its points, and are projected onto the non-decreasing arrays
(isotonic_projection.py); cells without points follow the others. Outside its outermost knots it is constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...tables.batch import AXES, Scene
from ...tables.grid import SCENE_AXES, Axes, Ladder, Points
from ..cross_validation import MOST_GRID_VALUES
from ..isotonic_projection import in_order, monotone, with_room
from ..node_residuals import base_weights
from ..numerics import reweighted
from ..rows import Rows, point_medians
from .estimator import Millis, SceneModel

SCATTER_KNOTS = 8  # of an axis of a scatter
MOST_GRID_NODES = 100_000
MOST_NODES_PER_POINT = 10  # of a grid; the values of a scatter make far more nodes
EMPTY_CELL_WEIGHT = 1e-3  # in points


@dataclass(frozen=True, slots=True)
class GridCurve:
    """knot_ms: (nodes,) on axes, read linearly."""

    axes: Axes
    scene: Scene
    knot_ms: NDArray[np.float64]

    def total_ms(self, points: Points) -> Millis:
        return np.asarray(base_weights(self.axes, self.scene, points) @ self.knot_ms)


def isotonic(rows: Rows, ladders: Mapping[Scene, Ladder]) -> dict[Scene, SceneModel]:
    """A grid of its own for each scene of `ladders`."""
    models = {}
    for scene in ladders:
        curve = _curve(point_medians(rows.scene(scene)), scene)
        models[scene] = SceneModel(curve, {"cells": float(len(curve.knot_ms))})
    return models


def _curve(medians: Rows, scene: Scene) -> GridCurve:
    axes = grid_of(scene, medians.points) or _spaced(scene, medians.points)
    shape = axes.shape(scene)
    cell = [_nearest(np.asarray(axes.knots(name)), medians.points[:, AXES.index(name)]) for name in SCENE_AXES[scene]]
    flat = np.ravel_multi_index(tuple(cell), shape)
    cells = point_medians(replace(medians, point_id=flat.astype(np.int64)))
    log_ms, weight = np.zeros(int(np.prod(shape))), np.full(int(np.prod(shape)), EMPTY_CELL_WEIGHT)
    log_ms[cells.point_id] = np.log(cells.latency_ms)
    weight[cells.point_id] = np.bincount(flat)[cells.point_id]
    measured = (weight > EMPTY_CELL_WEIGHT).reshape(shape)
    wanted = with_room(log_ms.reshape(shape), measured)

    def project(trust: NDArray[np.float64]) -> NDArray[np.float64]:
        trusted = weight.reshape(shape).copy()
        trusted[measured] *= trust
        return monotone(wanted, trusted)

    # Robust: a cell of one stalled iteration must not lift the cells above it.
    projected = reweighted(project, lambda values: (wanted - values)[measured], int(measured.sum()))
    return GridCurve(axes, scene, np.exp(in_order(projected)).ravel())


def grid_of(scene: Scene, points: Points) -> Axes | None:
    """The distinct values of each axis; None where these are too many, or the points too few, for a grid."""
    knots: dict[str, tuple[int, ...]] = dict.fromkeys(AXES, (0,))
    for name in SCENE_AXES[scene]:
        values = tuple(np.unique(points[:, AXES.index(name)]).tolist())
        if len(values) > MOST_GRID_VALUES:
            return None
        knots[name] = values
    axes = Axes(**knots)
    nodes = int(np.prod(axes.shape(scene)))
    return axes if nodes <= min(MOST_GRID_NODES, MOST_NODES_PER_POINT * len(points)) else None


def _spaced(scene: Scene, points: Points) -> Axes:
    """Log-spaced knots on every axis of a scatter."""
    knots: dict[str, tuple[int, ...]] = dict.fromkeys(AXES, (0,))
    return Axes(**(knots | {name: _knots(points[:, AXES.index(name)]) for name in SCENE_AXES[scene]}))


def _knots(values: NDArray[np.int64]) -> tuple[int, ...]:
    distinct = np.unique(values)
    if len(distinct) <= SCATTER_KNOTS:
        return tuple(distinct.tolist())
    low, high = max(1, int(distinct[0])), int(distinct[-1])
    spaced = np.unique(np.rint(np.geomspace(low, high, SCATTER_KNOTS)).astype(np.int64)).tolist()
    return (0, *spaced) if distinct[0] == 0 else tuple(spaced)


def _nearest(knots: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Index of the knot with the smallest ratio to each value (counted from 1, so that 0 is a value too)."""
    middle = np.sqrt((knots[1:] + 1.0) * (knots[:-1] + 1.0))
    return np.asarray(np.searchsorted(middle, values + 1.0), dtype=np.int64)
