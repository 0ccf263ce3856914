"""Weights that keep a stalled iteration from pulling a fit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

HUBER = 2.0  # robust standard deviations at which a row starts to lose weight


def huber_weights(residual: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 within HUBER robust standard deviations (1.4826 MAD about 0), then falling as 1 / |residual| (Huber 1964)."""
    off = np.abs(residual)
    spread = 1.4826 * float(np.median(off)) + 1e-12
    return np.minimum(1.0, HUBER * spread / np.maximum(off, 1e-12))
