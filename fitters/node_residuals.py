"""Node residuals: the table follows the data where there is data and the model where there is none.

The estimator gives values at the nodes. The relative residuals y / E - 1 at the fit points go to the nodes by weighted
least squares through the table's own interpolation weights, so the corrected value is the one that will be read. The
unknowns are one relative correction of the whole time for each ladder knot and each base node. Penalised are
differences between neighbouring nodes (smoothness) and the corrections themselves (they vanish away from data). Both
sides of a step are not neighbours. Cross-validation over points chooses the strength of the penalty.

Huber weights keep a stalled iteration from pulling its node. The penalty is a Gaussian Markov random field
prior (Rue & Held 2005, ch. 3) whose precision is `strength` times a first-difference matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..tables.batch import Scene
from ..tables.grid import Axes, Ladder, Points, batch_totals, corners, locate_all, node_points
from ..tables.lookup import WEIGHT_ONE
from .isotonic_projection import isotonic_projection
from .numerics import Matrix, reweighted, solved
from .rows import Rows

STRENGTHS = (0.003, 0.03, 0.3, 3.0, 30.0, 300.0)
STRENGTH_FOLDS = 4
ONE_FOLD_POINTS = 3000  # points from which one fold is enough
# Points that choose the strength, drawn at random. The strength is a ratio of two variances, noise over correction: it
# does not depend on the number of points, and STRENGTHS lie a factor of ten apart.
MOST_STRENGTH_POINTS = 20_000
# A ladder is one-dimensional and every row of the scene reads it: its knots need far less smoothing.
LADDER_STRENGTH_SHARE = 0.1
SHRINK_SHARE = 0.02  # of the strength: pull of a correction towards 0
MEASURED_WEIGHT = 0.5  # interpolation weight of fit points around a node that makes it "measured"


@dataclass(frozen=True, slots=True)
class SceneGrid:
    """Where one scene of a table has nodes. step_totals: the n + c after which the time jumps."""

    axes: Axes
    scene: Scene
    ladder: Ladder
    step_totals: Sequence[int]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the base."""
        return self.axes.shape(self.scene)

    @property
    def points(self) -> Points:
        """The base nodes, (nodes, 4)."""
        return node_points(self.axes, self.scene)

    def ladder_at_nodes(self, ladder_ms: NDArray[np.float64]) -> NDArray[np.float64]:
        """A ladder (knots,) read at every base node, (nodes,)."""
        return np.asarray(np.interp(batch_totals(self.points), np.asarray(self.ladder.batch_tokens), ladder_ms))


@dataclass(frozen=True, slots=True)
class Nodes:
    """Values in ms before ordering: ladder (knots,), base (shape of the base); which of them have data around them."""

    ladder: NDArray[np.float64]
    base: NDArray[np.float64]
    ladder_measured: NDArray[np.bool_]
    base_measured: NDArray[np.bool_]


def base_weights(axes: Axes, scene: Scene, points: Points) -> Matrix:
    """Sparse (points, nodes): the weight of every base node in each point's value; rows sum to 1."""
    lower, upper, weights = corners(axes, scene, points)
    shape = axes.shape(scene)
    rows, columns, values = [], [], []
    for bits in np.ndindex(*(2,) * len(shape)):
        index = tuple(upper[a] if bit else lower[a] for a, bit in enumerate(bits))
        weight = np.ones(len(points))
        for a, bit in enumerate(bits):
            weight = weight * (weights[a] if bit else WEIGHT_ONE - weights[a]) / WEIGHT_ONE
        rows.append(np.arange(len(points)))
        columns.append(np.ravel_multi_index(index, shape))
        values.append(weight)
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    weights_of_nodes = sparse.csr_matrix(entries, shape=(len(points), int(np.prod(shape))))
    weights_of_nodes.eliminate_zeros()  # a point on a node reads that node alone
    return weights_of_nodes


def ladder_weights(ladder: Ladder, points: Points) -> Matrix:
    """Sparse (points, ladder knots): the weight of every ladder knot in each point's value."""
    index, weight = locate_all(ladder.batch_tokens, batch_totals(points))
    rows = np.arange(len(points))
    last = len(ladder.batch_tokens) - 1
    entries = (
        np.concatenate([(WEIGHT_ONE - weight) / WEIGHT_ONE, weight / WEIGHT_ONE]),
        (np.concatenate([rows, rows]), np.concatenate([index, np.minimum(index + 1, last)])),
    )
    return sparse.csr_matrix(entries, shape=(len(points), last + 1))


def smooth_residuals(
    grid: SceneGrid,
    ladder_ms: NDArray[np.float64],
    base_ms: NDArray[np.float64],
    medians: Rows,
    strength: float | None = None,
) -> Nodes:
    """Nodes that follow `medians` (one row per point), given the model's values at the nodes.

    ladder_ms: (knots,). base_ms: (nodes,), flat. strength: of the penalty; None lets cross-validation choose.
    """
    # A base correction is relative to the whole time at its node.
    node_ms = grid.ladder_at_nodes(ladder_ms) + base_ms
    to_base, to_ladder = (
        base_weights(grid.axes, grid.scene, medians.points),
        ladder_weights(grid.ladder, medians.points),
    )
    model = to_ladder @ ladder_ms + to_base @ base_ms
    design = sparse.hstack(
        [
            to_ladder.multiply(ladder_ms[None, :]).multiply(1 / model[:, None]),
            to_base.multiply(node_ms[None, :]).multiply(1 / model[:, None]),
        ]
    ).tocsr()
    residual = medians.latency_ms / model - 1
    smooth = smoothness(grid)
    if strength is None:
        strength = _choose_strength(design, residual, smooth)
    correction = _solve(design, residual, smooth, strength)
    knots = len(ladder_ms)
    raw_ladder = ladder_ms * (1 + correction[:knots])
    ladder_measured = np.asarray(to_ladder.sum(axis=0)).ravel() >= MEASURED_WEIGHT
    # Each part is ordered by itself, so the base is fitted beside the ladder as it will stand.
    beside = medians.latency_ms - to_ladder @ isotonic_projection(raw_ladder, ladder_measured) - to_base @ base_ms
    base_correction = _solve(design[:, knots:], beside / model, smooth[knots:, knots:], strength)
    return Nodes(
        raw_ladder,
        (base_ms + node_ms * base_correction).reshape(grid.shape),
        ladder_measured,
        (np.asarray(to_base.sum(axis=0)).ravel() >= MEASURED_WEIGHT).reshape(grid.shape),
    )


def _choose_strength(design: Matrix, residual: NDArray[np.float64], smooth: Matrix) -> float:
    """The strength with the smallest mean absolute residual over held-out points, each counted up to four medians.

    The smoothest with fewer points than folds.
    """
    if len(residual) < STRENGTH_FOLDS:
        return STRENGTHS[-1]
    if len(residual) > MOST_STRENGTH_POINTS:
        some = np.sort(np.random.default_rng(0).choice(len(residual), MOST_STRENGTH_POINTS, replace=False))
        design, residual = design[some], residual[some]
    # By point id: the law's points have random ids, corners and steps are dealt out.
    fold = np.arange(len(residual)) % STRENGTH_FOLDS
    best, best_error = STRENGTHS[-1], np.inf
    for strength in reversed(STRENGTHS):
        held = np.concatenate(
            [
                residual[fold == f]
                - design[fold == f] @ _solve(design[fold != f], residual[fold != f], smooth, strength)
                for f in range(STRENGTH_FOLDS if len(residual) < ONE_FOLD_POINTS else 1)
            ]
        )
        error = float(np.mean(np.minimum(np.abs(held), 4 * np.median(np.abs(held)))))
        if error < best_error * 0.99:  # ties go to the smoother
            best, best_error = strength, error
    return best


def _solve(design: Matrix, residual: NDArray[np.float64], smooth: Matrix, strength: float) -> NDArray[np.float64]:
    def solve(weight: NDArray[np.float64]) -> NDArray[np.float64]:
        weighted = design.multiply(weight[:, None]).tocsr()
        return solved(design.T @ weighted + strength * smooth, weighted.T @ residual)

    return reweighted(solve, lambda solution: residual - design @ solution, len(residual))


def smoothness(grid: SceneGrid) -> Matrix:
    """Precision of the prior: squared first differences along every axis, plus the pull to 0."""
    shape = grid.shape
    base = sum(
        (_along(axis, shape, np.ones(shape[axis] - 1)) for axis in range(len(shape))),
        sparse.csr_matrix((int(np.prod(shape)),) * 2),
    )
    totals = grid.ladder.batch_tokens
    linked = np.asarray([1.0 if high not in set(grid.step_totals) else 0.0 for high in totals[1:]])
    ladder_part = LADDER_STRENGTH_SHARE * _along(0, (len(totals),), linked)
    whole = sparse.block_diag([ladder_part, base])
    return (whole + SHRINK_SHARE * sparse.identity(whole.shape[0])).tocsr()


def _along(axis: int, shape: tuple[int, ...], linked: NDArray[np.float64]) -> Matrix:
    """Sum of squared first differences along one axis of a grid, as a matrix."""
    size = shape[axis]
    difference = sparse.diags_array([-linked, linked], offsets=[0, 1], shape=(max(size - 1, 0), size))
    before = sparse.identity(int(np.prod(shape[:axis])))
    after = sparse.identity(int(np.prod(shape[axis + 1 :])))
    return sparse.kron(sparse.kron(before, difference.T @ difference), after).tocsr()
