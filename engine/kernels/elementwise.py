"""RMSNorm (Zhang and Sennrich, 2019) with the residual addition before it, and SwiGLU's gate (Shazeer, 2020)."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import triton
import triton.language as tl

from . import Variant, options, padded

if TYPE_CHECKING:
    import torch

SILU_BLOCK = 1024


@triton.jit
def _norm(
    hidden,  # (rows, WIDTH), written where ADD
    branch,  # (rows, WIDTH), read where ADD
    weight,  # (WIDTH,)
    out,  # (rows, WIDTH)
    WIDTH: tl.constexpr,
    EPS: tl.constexpr,
    BLOCK: tl.constexpr,
    ADD: tl.constexpr,
):
    # int64: 524,288 rows of 4,096 are 2^31 elements.
    first = tl.program_id(0).to(tl.int64) * WIDTH
    column = tl.arange(0, BLOCK)
    inside = column < WIDTH
    stored = tl.load(hidden + first + column, mask=inside, other=0.0)
    if ADD:
        added = tl.load(branch + first + column, mask=inside, other=0.0)
        stored = (stored.to(tl.float32) + added.to(tl.float32)).to(stored.dtype)
        tl.store(hidden + first + column, stored, mask=inside)
    # Of the rounded sum: the same as adding first and taking the norm of what was stored.
    value = stored.to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value, 0) / WIDTH + EPS)
    weights = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + first + column, (value * scale * weights).to(out.dtype.element_ty), mask=inside)


@functools.cache
def rms_norm_variant(width: int, eps: float, add: bool) -> Variant:
    block = padded(width)
    return Variant(
        _norm,
        {"WIDTH": width, "EPS": eps, "BLOCK": block, "ADD": add},
        # 16 elements a thread, and at least one warp.
        options(warps=max(1, min(16, block // 512))),
    )


def rms_norm(hidden: torch.Tensor, branch: torch.Tensor | None, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Norm of hidden (rows, width), contiguous, to which `branch` is added in place before, where given.

    Returns weight * hidden / sqrt(mean(hidden^2) + eps), computed in float32.
    """
    import torch  # here, so that the compiler alone can load this module

    rows, width = hidden.shape
    out = torch.empty_like(hidden)
    added = hidden if branch is None else branch
    rms_norm_variant(width, eps, branch is not None).launch((rows,), hidden, added, weight, out)
    return out


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
def silu_mul_variant(width: int) -> Variant:
    return Variant(_silu_mul, {"WIDTH": width, "BLOCK": SILU_BLOCK}, options(warps=4))


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """gate_up (rows, 2 width), contiguous, the gates first -> silu(gate) * up (rows, width), in float32 between."""
    rows, width = gate_up.shape[0], gate_up.shape[1] // 2
    out = gate_up.new_empty((rows, width))
    silu_mul_variant(width).launch((rows, triton.cdiv(width, SILU_BLOCK)), gate_up, out)
    return out
