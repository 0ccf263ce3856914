"""The parts that programs with a share of the keys each leave of an attention row, put together (flash-decoding,
Dao et al., 2023): what decode and chunk attention have in common after the keys.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import triton
import triton.language as tl

from .variant import Variant, options

if TYPE_CHECKING:
    import torch

PARTS_BLOCK = 16


@triton.jit(do_not_specialize=["splits"])
def _reduce(
    out,  # (rows, HEADS, HEAD_DIM)
    partials,  # (rows, HEADS, splits, HEAD_DIM) float32, each by the sum of its own exponentials
    log_totals,  # (rows, HEADS, splits) float32: log2 of that sum, -inf where the part is not written
    splits,
    HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_P: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * HEADS + tl.program_id(1)
    dims = tl.arange(0, HEAD_DIM)
    # The first part is always written: the maximum is finite from the first round on.
    maximum = -float("inf")
    total = 0.0
    weighted = tl.zeros([HEAD_DIM], tl.float32)
    for begin in tl.range(0, splits, BLOCK_P):
        split = begin + tl.arange(0, BLOCK_P)
        part = row * splits + split
        logs = tl.load(log_totals + part, mask=split < splits, other=float("-inf"))
        written = (logs > float("-inf"))[:, None]
        parts = tl.load(partials + part[:, None] * HEAD_DIM + dims[None, :], mask=written, other=0.0)
        new_maximum = tl.maximum(maximum, tl.max(logs, 0))
        weights = tl.exp2(logs - new_maximum)
        decay = tl.exp2(maximum - new_maximum)
        weighted = weighted * decay + tl.sum(parts * weights[:, None], 0)
        total = total * decay + tl.sum(weights, 0)
        maximum = new_maximum
    tl.store(out + row * HEAD_DIM + dims, (weighted / total).to(out.dtype.element_ty))


@functools.cache
def variant(heads: int, head_dim: int) -> Variant:
    return Variant(_reduce, {"HEADS": heads, "HEAD_DIM": head_dim, "BLOCK_P": PARTS_BLOCK}, options(warps=2))


def workspace(out: torch.Tensor, splits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Partials and log totals for out (rows, heads, head_dim), or `out` itself twice where nothing is split."""
    import torch  # here, so that the compiler alone can load this module

    if splits == 1:
        return out, out
    rows, heads, head_dim = out.shape
    return (
        out.new_empty((rows, heads, splits, head_dim), dtype=torch.float32),
        out.new_empty((rows, heads, splits), dtype=torch.float32),
    )


def reduce_splits(partials: torch.Tensor, log_totals: torch.Tensor, out: torch.Tensor) -> None:
    """Writes every row of out; partials and log_totals are a `workspace` of which every log total is written, and
    every part whose log total is finite, the first of each row among them.
    """
    rows, heads, splits, head_dim = partials.shape
    variant(heads, head_dim).launch((rows, heads), out, partials, log_totals, splits)
