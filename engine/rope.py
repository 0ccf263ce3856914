"""Rotary position embedding (Su et al., 2021), in the half-split layout of the Llama family."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray

from .config import Llama3RopeScaling


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


def rotation(
    positions: torch.Tensor, frequencies: torch.Tensor, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """(cos, signed sin), each (tokens, 1, head_dim), for `rotate`.

    frequencies: (head_dim / 2,) radians per token (`rope_frequencies`), in float32 at least, and so are the
    angles: bfloat16 holds positions exactly only up to 256. They are computed for the positions at hand, so
    no table limits how far a measured prefix may reach.
    """
    angles = positions.to(frequencies.dtype).unsqueeze(1) * frequencies
    cos, sin = angles.cos(), angles.sin()
    return (
        torch.cat((cos, cos), dim=-1).unsqueeze(1).to(dtype),
        torch.cat((-sin, sin), dim=-1).unsqueeze(1).to(dtype),
    )


def rotate(heads: torch.Tensor, cos: torch.Tensor, signed_sin: torch.Tensor) -> torch.Tensor:
    """heads (tokens, heads, head_dim) rotated by their positions.

    With halves x1, x2: (x1 cos - x2 sin, x2 cos + x1 sin); the roll swaps the halves and the sign sits
    in `signed_sin`, which makes it three operations.
    """
    return torch.addcmul(heads * cos, heads.roll(heads.shape[-1] // 2, dims=-1), signed_sin)
