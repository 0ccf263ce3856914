"""Coefficients >= 0 from a regression that knows no constraints, by leaving out what comes out negative."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DEPENDENT = 1e-6  # share of a column that earlier ones leave, at which it says nothing of its own


def without_negatives(fit: Callable[[Floats], Floats], columns: Floats) -> Floats:
    """Coefficients of `columns` (rows, columns), all >= 0; `fit` gives those of the columns it is handed.

    The most negative one is left out and the rest fitted again, until none is negative (backward elimination:
    what non-negative least squares gives when no column comes back in). A column that is made of earlier ones
    gets 0, as where all chunks have no prefix; columns are scaled to a largest magnitude of 1 before `fit` sees
    them.
    """
    scale = np.abs(columns).max(axis=0, initial=0.0)
    kept = independent(columns)
    coefficients = np.zeros(columns.shape[1])
    while kept:
        found = fit(columns[:, kept] / scale[kept])
        worst = int(np.argmin(found))
        if found[worst] >= 0:
            coefficients[kept] = found / scale[kept]
            break
        del kept[worst]
    return coefficients


def independent(columns: Floats) -> list[int]:
    """Indices of the columns that are not linear in those before them."""
    basis = np.zeros((len(columns), 0))
    kept = []
    for j in range(columns.shape[1]):
        size = float(np.linalg.norm(columns[:, j]))
        if size == 0:
            continue
        unit = columns[:, j] / size
        for _ in range(2):  # once more for what rounding left
            unit = unit - basis @ (basis.T @ unit)
        left = float(np.linalg.norm(unit))
        if left > DEPENDENT:
            kept.append(j)
            basis = np.column_stack([basis, unit / left])
    return kept
