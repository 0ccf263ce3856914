"""How the true time of iteration i differs from the true cost: a factor for each, the same in every process.

Factors are integers of 2^-20; iteration i takes number i modulo their count. That is a prime, so the period
meets none of a workload's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...files.errors import UsageError

FACTOR_BITS = 20
FACTOR_ONE = 1 << FACTOR_BITS
COUNT = 65_537

Factors = NDArray[np.int64]
EXACT: Factors = np.array([FACTOR_ONE], np.int64)


def noise_factors(seed: int, sigma: float) -> Factors:
    """Log-normal with median 1 and spread `sigma` of the logarithm (0.03 for noise of 3%). Raises UsageError."""
    if not 0 <= sigma <= 1:
        raise UsageError(f"noise_factors: sigma {sigma}; expected 0 to 1")
    return _integers(np.exp(sigma * np.random.default_rng(seed).standard_normal(COUNT)))


def residual_factors(seed: int, ratios: ArrayLike, in_a_row: int = 1) -> Factors:
    """Draws from recorded ratios of measured to expected time, shape (m,), `in_a_row` at a time as they were recorded.

    More than one keeps what neighbours in time have in common: the circular block bootstrap (Politis & Romano 1992).
    Raises UsageError.
    """
    recorded = np.asarray(ratios, np.float64)
    if recorded.ndim != 1 or not len(recorded) or not ((recorded > 0) & (recorded < 1e4)).all():
        raise UsageError("residual_factors: expected a list of ratios T / E above 0 and under 10,000")
    if in_a_row < 1:
        raise UsageError(f"residual_factors: in_a_row is {in_a_row}; expected at least 1")
    first = np.random.default_rng(seed).integers(len(recorded), size=-(-COUNT // in_a_row))
    places = (first[:, None] + np.arange(in_a_row)).ravel()[:COUNT]
    return _integers(recorded[places % len(recorded)])


def _integers(factors: NDArray[np.float64]) -> Factors:
    return np.maximum(np.rint(factors * FACTOR_ONE), 1).astype(np.int64)
