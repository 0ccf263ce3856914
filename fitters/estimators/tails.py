"""The tail of an estimator that fits a median only: an affine function of that median."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..rows import Rows
from .estimator import Lift
from .quantile_lp import fit_quantile

TAIL = 0.99


def lift(rows: Rows, expected_ms: NDArray[np.float64]) -> Lift:
    """The 0.99 quantile of `rows` as constant + factor * expected_ms, by quantile regression of relative error.

    Two coefficients: a share of the time (noise of the device) and a time (a stall that is as long in a short
    iteration). Only its shape counts, the calibration session sets the level. Raises FitError.
    """
    columns = np.column_stack([np.ones(len(rows)), expected_ms]) / rows.latency_ms[:, None]
    constant, factor = fit_quantile(columns, np.ones(len(rows)), TAIL).tolist()
    return Lift(constant, factor)
