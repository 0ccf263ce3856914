"""Sparse normal equations, solved by factors where they are few and by conjugate gradients where they are many."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import cg, splu

MOST_FACTORED = 8000  # unknowns; factors of a grid of four axes fill up
TOLERANCE = 1e-5
MOST_ITERATIONS = 150  # what is left then is long waves that the data hardly sees

Matrix = Any  # a scipy.sparse matrix; SciPy ships no types


def solved(normal: Matrix, right: NDArray[np.float64]) -> NDArray[np.float64]:
    """x of normal @ x = right; normal: symmetric, positive definite, (unknowns, unknowns)."""
    if normal.shape[0] <= MOST_FACTORED:
        return np.asarray(
            splu(normal.tocsc(), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True}).solve(right)
        )
    normal = normal.tocsr()
    found, _ = cg(normal, right, rtol=TOLERANCE, maxiter=MOST_ITERATIONS, M=sparse.diags_array(1 / normal.diagonal()))
    return np.asarray(found)
