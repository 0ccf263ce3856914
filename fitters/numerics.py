"""Numerical methods that several fitters share: robust and non-negative regression, sparse solving, neighbours.

Robust means Huber weights (Huber 1964): a stalled iteration loses weight instead of pulling the fit. Non-negative
means coefficients >= 0: a model of columns that grow with the work is then non-decreasing by construction.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import nnls
from scipy.sparse.linalg import cg, splu
from threadpoolctl import threadpool_limits

from ..files.errors import FitError

HUBER = 2.0  # robust standard deviations from which a row loses weight
HUBER_ROUNDS = 2  # fits with new weights after the first, unless a caller needs more
NNLS_ITERATIONS = 30  # per column: ten times SciPy's own
DEPENDENT = 1e-6  # share of a column left by the earlier ones, below which it is linear in them
MOST_FACTORED = 8000  # unknowns solved by factors; the factors of a grid of four axes fill up
CG_TOLERANCE = 1e-5
CG_ITERATIONS = 150  # then only long waves are unsolved, which the data hardly determines

Floats = NDArray[np.float64]
Matrix = Any  # a scipy.sparse matrix; SciPy ships no types
P = ParamSpec("P")
R = TypeVar("R")


def huber_weights(residual: Floats) -> Floats:
    """1 within HUBER robust standard deviations (1.4826 MAD about 0), then falling as 1 / |residual|."""
    off = np.abs(residual)
    deviation = 1.4826 * float(np.median(off)) + 1e-12
    return np.minimum(1.0, HUBER * deviation / np.maximum(off, 1e-12))


def reweighted(
    fit: Callable[[Floats], R], residual_of: Callable[[R], Floats], rows: int, rounds: int = HUBER_ROUNDS
) -> R:
    """`fit(weights)` with weights of 1, then `rounds` times with the Huber weights of its own residuals.

    fit: takes weights (rows,). residual_of: its result's residuals (rows,).
    """
    result = fit(np.ones(rows))
    for _ in range(rounds):
        result = fit(huber_weights(residual_of(result)))
    return result


def unit_columns(columns: Floats) -> tuple[Floats, Floats]:
    """`columns` (rows, columns) divided by their largest magnitude, and that, (columns,); 1 for columns of zeros."""
    scale = np.abs(columns).max(axis=0, initial=0.0)
    scale[scale == 0] = 1.0
    return columns / scale, scale


def robust_nnls(
    relative: Floats, *, counts: Floats | float = 1.0, penalty: Floats | None = None, rounds: int = 3
) -> Floats:
    """Weights (columns,) >= 0 with the least squares of 1 - relative @ weights, Huber weighted. Raises FitError.

    relative: (rows, columns), columns / latency. It is the relative error that is fitted: 1% of a long iteration must
    not outweigh 50% of a short one. counts: (rows,), measurements behind each row. penalty: (penalties, columns), rows
    whose product with the weights is drawn to 0. Where columns depend on each other, rounding chooses among equal
    solutions: give `unit_columns` for one that does not depend on their units.
    """
    scaled, scale = unit_columns(relative)
    added = np.empty((0, relative.shape[1])) if penalty is None else penalty / scale

    def solve(weights: Floats) -> Floats:
        root = np.sqrt(weights * counts)
        left = np.vstack([scaled * root[:, None], added])
        return np.asarray(non_negative(left, np.concatenate([root, np.zeros(len(added))])) / scale)

    return reweighted(solve, lambda solution: 1.0 - relative @ solution, len(relative), rounds)


def non_negative(left: Floats, right: Floats) -> Floats:
    """x >= 0 with the least |left x - right|, left (rows, columns). Raises FitError when the active set cycles.

    Solved is the triangle of a QR factorisation: the same sums of squares, with as many rows as columns.
    """
    triangle: Floats = np.asarray(np.linalg.qr(np.column_stack([left, right]), mode="r"))
    try:
        solution, _ = nnls(triangle[:, :-1], triangle[:, -1], maxiter=NNLS_ITERATIONS * left.shape[1])
    except RuntimeError as error:
        raise FitError(
            f"non-negative least squares of {left.shape[1]} columns on {left.shape[0]} rows: {error}; "
            "check the profile for repeated or impossible rows, or use another --fitter"
        ) from error
    return np.asarray(solution)


def without_negatives(fit: Callable[[Floats], Floats], columns: Floats) -> Floats:
    """Coefficients >= 0 of `columns` (rows, columns) from `fit`, a regression that knows no constraints.

    Backward elimination: the column with the most negative coefficient is dropped and the rest fitted again, until none
    is negative. (Non-negative least squares gives the same unless a column comes back in.) A column that is linear in
    earlier ones gets 0, as where all chunks have no prefix. `fit` sees columns scaled to a largest magnitude of 1.
    """
    scale = np.abs(columns).max(axis=0, initial=0.0)
    kept = independent(columns)
    coefficients = np.zeros(columns.shape[1])
    while kept:
        solution = fit(columns[:, kept] / scale[kept])
        worst = int(np.argmin(solution))
        if solution[worst] >= 0:
            coefficients[kept] = solution / scale[kept]
            break
        del kept[worst]
    return coefficients


def independent(columns: Floats) -> list[int]:
    """Indices of the columns that are not linear in those before them (Gram-Schmidt)."""
    basis = np.zeros((len(columns), 0))
    kept = []
    for j in range(columns.shape[1]):
        size = float(np.linalg.norm(columns[:, j]))
        if size == 0:
            continue
        unit = columns[:, j] / size
        for _ in range(2):  # the second time removes the rounding error of the first
            unit = unit - basis @ (basis.T @ unit)
        rest = float(np.linalg.norm(unit))
        if rest > DEPENDENT:
            kept.append(j)
            basis = np.column_stack([basis, unit / rest])
    return kept


def solved(normal: Matrix, right: Floats) -> Floats:
    """x of normal @ x = right; normal: sparse, symmetric, positive definite, (unknowns, unknowns).

    By factors up to MOST_FACTORED unknowns, by conjugate gradients above.
    """
    if normal.shape[0] <= MOST_FACTORED:
        return np.asarray(
            splu(normal.tocsc(), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True}).solve(right)
        )
    normal = normal.tocsr()
    diagonal = sparse.diags_array(1 / normal.diagonal())
    solution, _ = cg(normal, right, rtol=CG_TOLERANCE, maxiter=CG_ITERATIONS, M=diagonal)
    return np.asarray(solution)


def without_self(nearest: NDArray[np.int64]) -> NDArray[np.int64]:
    """Indices of each point's nearest points without the point itself: (points, count) to (points, count - 1)."""
    own = nearest == np.arange(len(nearest))[:, None]
    own[~own.any(axis=1), -1] = True  # it is not among its nearest where others stand on the same place
    return np.asarray(nearest[~own].reshape(len(nearest), -1))


def one_blas_thread(function: Callable[P, R]) -> Callable[P, R]:
    """`function` with BLAS on one thread while it runs.

    The matrices of a fit are small, and BLAS's threads wait for each other actively. On two cores they gain nothing.
    Beside other work (an engine that serves, a second fit) the same fit took 20 to 46 s, with one thread 3.5 s.
    """

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        with threadpool_limits(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return limited
