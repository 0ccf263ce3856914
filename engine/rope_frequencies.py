"""How fast each pair of a head's dimensions turns with the position: RoPE's angles before the positions.

NumPy only: `config.py` checks a scaling without loading torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..files.errors import UsageError


@dataclass(frozen=True, slots=True)
class Llama3RopeScaling:
    """`rope_type: llama3` of Llama 3.1 and later: slow pairs turn `factor` times slower, fast ones as before.

    A pair is fast when it turns high_freq_factor times or more within original_context_length tokens and
    slow when low_freq_factor times or less; between the two the slowing fades. Raises UsageError for values
    that cannot be meant.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context_length: int

    def __post_init__(self) -> None:
        for field in ("factor", "low_freq_factor", "high_freq_factor", "original_context_length"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise UsageError(f"rope scaling llama3: {field} is {value!r}; expected a finite number > 0")
        if self.low_freq_factor >= self.high_freq_factor:
            raise UsageError(
                f"rope scaling llama3: low_freq_factor is {self.low_freq_factor} and high_freq_factor is "
                f"{self.high_freq_factor}; expected the low one to be smaller, since slowing fades between them"
            )


def rope_frequencies(head_dim: int, theta: float, scaling: Llama3RopeScaling | None) -> NDArray[np.float64]:
    """Radians per token (head_dim / 2,), fastest pair first.

    >>> rope_frequencies(4, 10_000.0, None).tolist()
    [1.0, 0.01]
    """
    frequencies: NDArray[np.float64] = float(theta) ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    if scaling is None:
        return frequencies
    turns = scaling.original_context_length * frequencies / (2 * math.pi)
    band = scaling.high_freq_factor - scaling.low_freq_factor
    kept = np.clip((turns - scaling.low_freq_factor) / band, 0.0, 1.0)
    return frequencies * (kept + (1.0 - kept) / scaling.factor)
