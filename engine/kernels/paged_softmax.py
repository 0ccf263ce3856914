"""One block of keys folded into a running softmax: what decode and chunk attention have in common.

The running softmax is Milakov and Gimelshein's (2018), in powers of two: the scale holds log2(e).
"""

from __future__ import annotations

import math

import triton
import triton.language as tl


@triton.jit
def fold_keys(
    queries,  # (rows, HEAD_DIM)
    state,  # maximum (rows,), total (rows,), weighted sum of values (rows, HEAD_DIM), all float32
    keys,  # of this layer and KV head: slot 0, dimension 0
    values,
    table,  # block table of this sequence
    first,  # first key of the block
    end,  # no key from here on is read
    limits,  # (rows,) last key that each row may see
    MASKED: tl.constexpr,  # False: every row sees every key of the block
    SCALE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    KV_STRIDE: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    maximum, total, weighted = state
    key = first + tl.arange(0, BLOCK_N)
    dims = tl.arange(0, HEAD_DIM)
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
    return new_maximum, total * decay + tl.sum(weights, 1), weighted


def softmax_scale(head_dim: int) -> float:
    """log2(e) / sqrt(head_dim)."""
    return math.log2(math.e) / math.sqrt(head_dim)
