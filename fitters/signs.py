"""Coefficients >= 0 from a regression that knows no constraints, by leaving out what comes out negative."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def without_negatives(fit: Callable[[Floats], Floats], columns: Floats) -> Floats:
    """Coefficients of `columns` (rows, columns), all >= 0; `fit` gives those of the columns it is handed.

    The most negative one is left out and the rest fitted again, until none is negative (backward elimination:
    what non-negative least squares gives when no column comes back in). Equal columns count once and columns
    of zeros get 0; columns are scaled to a largest magnitude of 1 before `fit` sees them.
    """
    scale = np.abs(columns).max(axis=0, initial=0.0)
    _, first = np.unique(columns, axis=1, return_index=True)
    kept = [int(j) for j in np.sort(first) if scale[j] > 0]
    coefficients = np.zeros(columns.shape[1])
    while kept:
        found = fit(columns[:, kept] / scale[kept])
        worst = int(np.argmin(found))
        if found[worst] >= 0:
            coefficients[kept] = found / scale[kept]
            break
        del kept[worst]
    return coefficients
