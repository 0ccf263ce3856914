"""Rotary position embedding (Su et al., 2021), in the half-split layout of the Llama family."""

from __future__ import annotations

import torch


def rotation(
    positions: torch.Tensor, head_dim: int, theta: float, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """(cos, signed sin), each (tokens, 1, head_dim), for `rotate`.

    Angles are computed in float32 at least: bfloat16 holds positions exactly only up to 256. They are
    computed for the positions at hand, so no table limits how far a measured prefix may reach.
    """
    precise = torch.float64 if dtype == torch.float64 else torch.float32
    pairs = torch.arange(0, head_dim, 2, device=positions.device, dtype=precise)
    angles = positions.to(precise).unsqueeze(1) * theta ** (-pairs / head_dim)
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
