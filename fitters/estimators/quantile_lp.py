"""Quantile regression with non-negative coefficients, solved as the dual linear program.

min over b >= 0 of the pinball loss of y - X b (Koenker & Bassett 1978) has the dual
    max y'd   subject to   X'd <= 0,   q - 1 <= d <= q,
with one constraint per coefficient instead of two variables per row: 20,000 rows take a second where the
primal takes most of a minute. The coefficients are the negated marginals of the constraints.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from ...files.errors import FitError


def fit_quantile(x: NDArray[np.float64], y: NDArray[np.float64], quantile: float) -> NDArray[np.float64]:
    """Coefficients b >= 0, shape (columns,), of the `quantile` of y given x (shape (rows, columns)).

    Columns are scaled to a largest magnitude of 1 for the solver; an all-zero column gets 0.
    Raises FitError when the solver fails, with its message.
    """
    scale = np.abs(x).max(axis=0, initial=0.0)
    used = scale > 0
    scaled = x[:, used] / scale[used]
    result = linprog(
        -y,
        A_ub=scaled.T,
        b_ub=np.zeros(int(used.sum())),
        bounds=(quantile - 1.0, quantile),
        method="highs",
    )
    if result.status != 0:
        raise FitError(
            f"quantile regression at {quantile} on {len(y)} rows: the solver stopped ({result.message}); "
            "check the profile for repeated or impossible rows"
        )
    coefficients = np.zeros(x.shape[1])
    coefficients[used] = np.maximum(-result.ineqlin.marginals, 0.0) / scale[used]
    return coefficients
