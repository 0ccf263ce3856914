"""Non-negative least squares, whose failure is an error of ours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from ...files.errors import FitError

ITERATIONS = 30  # per column: ten times SciPy's own


def non_negative(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """x >= 0 with the least |left x - right|, left (rows, columns). Raises FitError when the active set cycles.

    Solved is the triangle of a QR factorisation: the same sums of squares, with as many rows as columns.
    """
    triangle: NDArray[np.float64] = np.asarray(np.linalg.qr(np.column_stack([left, right]), mode="r"))
    try:
        found, _ = nnls(triangle[:, :-1], triangle[:, -1], maxiter=ITERATIONS * left.shape[1])
    except RuntimeError as error:
        raise FitError(
            f"non-negative least squares of {left.shape[1]} columns on {left.shape[0]} rows: {error}; "
            "check the profile for repeated or impossible rows, or use another --fitter"
        ) from error
    return np.asarray(found)
