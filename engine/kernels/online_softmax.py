"""Attention over parts of the keys, shared by the two attention kernels: the running softmax over blocks of keys
(Milakov and Gimelshein, 2018) in powers of two, and the reduction of split keys (flash-decoding, Dao et al., 2023).

The kernels of this folder take 9 to 20 arguments: Triton passes every tensor, stride and constant by itself.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import triton
import triton.language as tl

from . import Variant, options

if TYPE_CHECKING:
    import torch

PARTS_BLOCK = 16


@triton.jit
def fold_keys(
    queries,  # (rows, HEAD_DIM)
    state,  # maximum (rows,), total (rows,), weighted sum of values (rows, HEAD_DIM), all float32
    sequence,  # keys and values of this layer and KV head from slot 0, block table, last key (rows,) of each row
    first,  # first key
    stop,  # blocks begin before this key
    end,  # no key from here on is read
    SCALE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    KV_STRIDE: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    BLOCK_N: tl.constexpr,
    MASKED: tl.constexpr,  # False: every row sees every key of the blocks
):
    maximum, total, weighted = state
    keys, values, table, limits = sequence
    dims = tl.arange(0, HEAD_DIM)
    for begin in tl.range(first, stop, BLOCK_N):
        key = begin + tl.arange(0, BLOCK_N)
        # Block tables are int64, and so is everything from here: a slot times its stride passes 2^31.
        if MASKED:
            inside = key < end
            page = tl.load(table + key // PAGE_SIZE, mask=inside, other=0)
            offsets = (page * PAGE_SIZE + key % PAGE_SIZE) * KV_STRIDE
            # What is not read counts as 0, in the values too: 0 times whatever lies there may be NaN.
            block = tl.load(keys + offsets[:, None] + dims[None, :], mask=inside[:, None], other=0.0)
        else:
            page = tl.load(table + key // PAGE_SIZE)
            offsets = (page * PAGE_SIZE + key % PAGE_SIZE) * KV_STRIDE
            block = tl.load(keys + offsets[:, None] + dims[None, :])
        scores = tl.dot(queries, tl.trans(block), input_precision="ieee") * SCALE
        if MASKED:
            scores = tl.where(key[None, :] <= limits[:, None], scores, float("-inf"))
        new_maximum = tl.maximum(maximum, tl.max(scores, 1))
        weights = tl.exp2(scores - new_maximum[:, None])
        decay = tl.exp2(maximum - new_maximum)
        if MASKED:
            block = tl.load(values + offsets[:, None] + dims[None, :], mask=inside[:, None], other=0.0)
        else:
            block = tl.load(values + offsets[:, None] + dims[None, :])
        weighted = tl.dot(weights.to(block.dtype), block, weighted * decay[:, None], input_precision="ieee")
        total = total * decay + tl.sum(weights, 1)
        maximum = new_maximum
    return maximum, total, weighted


def softmax_scale(head_dim: int) -> float:
    """log2(e) / sqrt(head_dim)."""
    return math.log2(math.e) / math.sqrt(head_dim)


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
def reduction_variant(heads: int, head_dim: int) -> Variant:
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
    reduction_variant(heads, head_dim).launch((rows, heads), out, partials, log_totals, splits)
