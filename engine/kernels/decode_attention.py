"""Paged attention of one query token per sequence. The keys of a sequence are split over several programs
(flash-decoding, Dao et al., 2023), whose parts `reduce_splits` combines.

The query heads of one KV head are the rows of one product, padded to the 16 rows of a matrix unit, so keys and values
are read once.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import triton
import triton.language as tl

from . import Variant, options, padded
from .online_softmax import fold_keys, reduce_splits, softmax_scale, workspace

if TYPE_CHECKING:
    import torch

# (head_dim, bytes of an element): keys of a block, warps, stages. The loads of keys wait for the loads of page
# ids, so of five stages two hold keys and values: 64 KB of them, and two or three programs on a processor.
BLOCKS = {
    (32, 2): (64, 4, 5),
    (64, 2): (128, 4, 5),
    (128, 2): (64, 4, 5),
    (32, 4): (64, 4, 3),
    (64, 4): (32, 4, 3),
    (128, 4): (32, 4, 3),
}
PROGRAMS_PER_PROCESSOR = 4
# A shorter split costs more, in its start and its part, than it saves.
LEAST_KEYS_PER_SPLIT = 128
MOST_SPLITS = 64


@triton.jit(do_not_specialize_on_alignment=["lengths", "page_starts", "pages"])
def _attend(
    queries,  # (tokens, HEADS, HEAD_DIM), rows query_stride apart
    out,  # (tokens, HEADS, HEAD_DIM)
    partials,  # (decodes, HEADS, splits, HEAD_DIM) float32
    log_totals,  # (decodes, HEADS, splits) float32: log2 of the sum of exponentials, -inf of no keys
    keys,  # (slots, KV_HEADS, HEAD_DIM)
    values,
    lengths,  # (decodes,) int64
    page_starts,  # (decodes,) int64: where each block table begins in `pages`
    pages,  # int64
    query_stride,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    SCALE: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_N: tl.constexpr,
    SPLIT: tl.constexpr,
):
    sequence = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    splits = tl.num_programs(2)
    length = tl.load(lengths + sequence).to(tl.int32)
    SHARED: tl.constexpr = HEADS // KV_HEADS
    lane = tl.arange(0, BLOCK_H)
    dims = tl.arange(0, HEAD_DIM)
    head = kv_head * SHARED + lane
    row = sequence * HEADS + head
    part = row * splits + split
    first = 0
    end = length
    if SPLIT:
        # Whole blocks, equal shares of this sequence's own length: the grid does not depend on it.
        share = tl.cdiv(tl.cdiv(length, splits), BLOCK_N) * BLOCK_N
        first = split * share
        end = tl.minimum(first + share, length)
        if first >= length:
            tl.store(log_totals + part, tl.full([BLOCK_H], float("-inf"), tl.float32), mask=lane < SHARED)
            return

    real = (lane < SHARED)[:, None]
    query = tl.load(queries + sequence * query_stride + head[:, None] * HEAD_DIM + dims[None, :], mask=real, other=0.0)
    table = pages + tl.load(page_starts + sequence)
    limits = tl.zeros([BLOCK_H], tl.int32) + (end - 1)
    state = (
        tl.full([BLOCK_H], float("-inf"), tl.float32),
        tl.zeros([BLOCK_H], tl.float32),
        tl.zeros([BLOCK_H, HEAD_DIM], tl.float32),
    )
    sequence = (keys + kv_head * HEAD_DIM, values + kv_head * HEAD_DIM, table, limits)
    STRIDE: tl.constexpr = KV_HEADS * HEAD_DIM
    maximum, total, weighted = fold_keys(
        query, state, sequence, first, end, end, SCALE, HEAD_DIM, STRIDE, PAGE_SIZE, BLOCK_N, MASKED=True
    )
    attended = weighted / total[:, None]
    if SPLIT:
        tl.store(partials + part[:, None] * HEAD_DIM + dims[None, :], attended, mask=real)
        tl.store(log_totals + part, maximum + tl.log2(total), mask=lane < SHARED)
    else:
        tl.store(out + row[:, None] * HEAD_DIM + dims[None, :], attended.to(out.dtype.element_ty), mask=real)


def splits_for(lengths_total: int, longest: int, kv_heads: int, processors: int) -> int:
    """Programs that share the keys of one sequence, so that `processors` are full and the longest sequence
    of an uneven batch is not what all wait for.
    """
    share_of_longest = -(-PROGRAMS_PER_PROCESSOR * processors * longest // (kv_heads * lengths_total))
    return max(1, min(share_of_longest, -(-longest // LEAST_KEYS_PER_SPLIT), MOST_SPLITS))


@functools.cache
def variant(heads: int, kv_heads: int, head_dim: int, page_size: int, itemsize: int, split: bool) -> Variant:
    """split: leaves parts for `reduce_splits` instead of the result."""
    block_n, warps, stages = BLOCKS[head_dim, itemsize]
    return Variant(
        _attend,
        {
            "HEADS": heads,
            "KV_HEADS": kv_heads,
            "HEAD_DIM": head_dim,
            "PAGE_SIZE": page_size,
            "SCALE": softmax_scale(head_dim),
            "BLOCK_H": padded(heads // kv_heads, 16),
            "BLOCK_N": block_n,
            "SPLIT": split,
        },
        options(warps, stages),
    )


def decode_attention(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    lengths: torch.Tensor,
    page_starts: torch.Tensor,
    pages: torch.Tensor,
    out: torch.Tensor,
    *,
    page_size: int,
    splits: int,
) -> None:
    """Rows 0 to decodes - 1 of queries and out (tokens, heads, head_dim): row i attends to the first lengths[i]
    tokens of its sequence, its own included, scores scaled by 1 / sqrt(head_dim).

    keys, values: (slots, kv_heads * head_dim), contiguous. lengths (decodes,), every one at least 1, page_starts
    (decodes,) and pages are int64; the block table of sequence i begins at pages[page_starts[i]]. Rows of queries
    may lie apart (stride 0), heads and dimensions not. Nothing outside the sequences is read.
    """
    _, heads, head_dim = queries.shape
    decodes, kv_heads = lengths.shape[0], keys.shape[1] // head_dim
    partials, log_totals = workspace(out[:decodes], splits)
    variant(heads, kv_heads, head_dim, page_size, queries.element_size(), splits > 1).launch(
        (decodes, kv_heads, splits),
        queries,
        out,
        partials,
        log_totals,
        keys,
        values,
        lengths,
        page_starts,
        pages,
        queries.stride(0),
    )
    if splits > 1:
        reduce_splits(partials, log_totals, out[:decodes])
