"""A smooth field over a grid of measured values: what a trend leaves, where points repeat the same coordinates.

A Gaussian Markov random field of second order (Rue & Held 2005, ch. 3): penalised are second differences
between neighbouring values of every axis, and a little the field itself, so that it is 0 far from data. Between
the values it is read linearly; past them its outermost value holds. The strength is chosen by the error at
held-out cells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ...tables.batch import Scene
from ...tables.grid import POINT_COLUMN, SCENE_AXES, Axes, Points
from ..folds import MOST_VALUES
from ..node_residuals import base_weights
from ..normal_equations import Matrix, solved

STRENGTHS = (0.1, 1.0, 10.0, 100.0)
HELD_OUT = 3  # every third cell
SHRINK = 0.01  # of the strength: pull towards 0
MOST_NODES = 100_000
NODES_PER_POINT = 10  # of a grid that points of a scatter make by chance there are far more

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GridField:
    """values: (nodes,) on axes."""

    axes: Axes
    scene: Scene
    values: Floats

    def at(self, points: Points) -> Floats:
        """The field at each point, shape (points,)."""
        return np.asarray(base_weights(self.axes, self.scene, points) @ self.values)


def grid_of(scene: Scene, points: Points) -> Axes | None:
    """The distinct values of each axis, None where they are too many, or the points too few, to be a grid."""
    knots: dict[str, tuple[int, ...]] = dict.fromkeys(POINT_COLUMN, (0,))
    for name in SCENE_AXES[scene]:
        values = tuple(np.unique(points[:, POINT_COLUMN[name]]).tolist())
        if len(values) > MOST_VALUES:
            return None
        knots[name] = values
    axes = Axes(**knots)
    nodes = int(np.prod(axes.shape(scene)))
    return axes if nodes <= min(MOST_NODES, NODES_PER_POINT * len(points)) else None


def fit_field(axes: Axes, scene: Scene, points: Points, residual: Floats, weight: Floats) -> GridField:
    """The field through `residual` (points,), one value a point; strength by held-out absolute residual."""
    design, rough = base_weights(axes, scene, points), roughness(axes.shape(scene))
    held = np.random.default_rng(0).permutation(len(points)) % HELD_OUT == 0
    best, best_error = STRENGTHS[-1], np.inf
    for strength in reversed(STRENGTHS):
        values = _solve(design, residual, weight * ~held, rough, strength)
        error = float(np.mean(np.abs(residual[held] - design[held] @ values)))
        if error < 0.99 * best_error:  # ties go to the smoother
            best, best_error = strength, error
    return GridField(axes, scene, _solve(design, residual, weight, rough, best))


def roughness(shape: tuple[int, ...]) -> Matrix:
    """Precision of the prior: squared second differences along every axis, plus the pull to 0."""
    size = int(np.prod(shape))
    total = SHRINK * sparse.identity(size)
    for axis, length in enumerate(shape):
        if length < 2:
            continue
        order = min(2, length - 1)
        difference = sparse.csr_matrix(np.diff(np.eye(length), n=order, axis=0))
        before = sparse.identity(int(np.prod(shape[:axis])))
        after = sparse.identity(int(np.prod(shape[axis + 1 :])))
        total = total + sparse.kron(sparse.kron(before, difference.T @ difference), after)
    return total.tocsr()


def _solve(design: Matrix, residual: Floats, weight: Floats, rough: Matrix, strength: float) -> Floats:
    normal = design.T @ design.multiply(weight[:, None]) + strength * rough
    return solved(normal, design.T @ (weight * residual))
