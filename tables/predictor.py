"""What the adaptive plan asks of a model it does not know."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .grid import Points


class Predictor(Protocol):
    """A quick fit: what iterations elsewhere will take, from those that were measured."""

    def __call__(self, points: Points, latency_ms: NDArray[np.float64], queries: Points) -> NDArray[np.float64]:
        """Expected ms of each of `queries` (q, 4), fitted to one median per point of `points` (m, 4)."""
        ...
