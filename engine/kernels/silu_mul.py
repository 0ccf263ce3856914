"""The gate of a SwiGLU block (Shazeer, 2020): silu(gate) * up."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import triton
import triton.language as tl

from .variant import Variant, options

if TYPE_CHECKING:
    import torch

BLOCK = 1024


@triton.jit
def _silu_mul(gate_up, out, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)  # rows times 2 WIDTH passes 2^31 at 75,000 tokens of an 8B model
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < WIDTH
    gate = tl.load(gate_up + row * (2 * WIDTH) + column, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * (2 * WIDTH) + WIDTH + column, mask=inside, other=0.0).to(tl.float32)
    product = gate / (1.0 + tl.exp(-gate)) * up
    tl.store(out + row * WIDTH + column, product.to(out.dtype.element_ty), mask=inside)


@functools.cache
def variant(width: int) -> Variant:
    return Variant(_silu_mul, {"WIDTH": width, "BLOCK": BLOCK}, options(warps=4))


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """gate_up (rows, 2 width), contiguous, the gates first -> silu(gate) * up (rows, width), in float32 between."""
    rows, width = gate_up.shape[0], gate_up.shape[1] // 2
    out = gate_up.new_empty((rows, width))
    variant(width).launch((rows, triton.cdiv(width, BLOCK)), gate_up, out)
    return out
