"""Paged causal attention of prefill chunks: the new tokens of each sequence against its prefix and themselves.

A tile's rows are (token, query head) pairs of one KV head: keys are read once for all of them, a chunk of a
few tokens still fills a tile, and heads need not be a power of two.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import triton
import triton.language as tl

from .paged_softmax import fold_keys, softmax_scale
from .variant import Variant, options

if TYPE_CHECKING:
    import torch

# (head_dim, bytes of an element): rows of a tile, keys of a block, warps, stages. The loads of keys wait for the
# loads of page ids, so of five stages two hold keys and values.
TILES = {
    (32, 2): (64, 64, 4, 5),
    (64, 2): (128, 128, 8, 5),
    (128, 2): (128, 64, 8, 5),
    (32, 4): (64, 32, 4, 3),
    (64, 4): (32, 32, 4, 3),
    (128, 4): (32, 32, 8, 3),
}
# Other than on Hopper and data-centre Blackwell (capability 9 and 10) products read both operands from registers,
# where half the keys is what fits without spilling; and consumer cards have 99 KB of shared memory.
SMALL_TILES = TILES | {
    (64, 2): (128, 64, 8, 5),
    (128, 2): (128, 32, 8, 5),
}


@triton.jit(do_not_specialize_on_alignment=["first_rows", "lengths", "page_starts", "pages"])
def _attend(
    queries,  # (tokens, HEADS, HEAD_DIM), rows query_stride apart
    out,  # (tokens, HEADS, HEAD_DIM)
    keys,  # (slots, KV_HEADS, HEAD_DIM)
    values,
    first_rows,  # (chunks + 1,) int64
    lengths,  # (chunks,) int64: prefix and chunk
    page_starts,  # (chunks,) int64
    pages,  # int64
    query_stride,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    SCALE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    SHARED: tl.constexpr = HEADS // KV_HEADS
    # Later tiles see more keys; the longest work starts first.
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    kv_head = tl.program_id(1)
    chunk = tl.program_id(2)
    first_row = tl.load(first_rows + chunk)
    tokens = (tl.load(first_rows + chunk + 1) - first_row).to(tl.int32)
    first_token = tile * BLOCK_M // SHARED
    if first_token >= tokens:
        return

    prefix = tl.load(lengths + chunk).to(tl.int32) - tokens
    pair = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    token = pair // SHARED
    head = kv_head * SHARED + pair % SHARED
    dims = tl.arange(0, HEAD_DIM)
    real = (token < tokens)[:, None]
    row = first_row + token
    query = tl.load(
        queries + (row * query_stride + head * HEAD_DIM)[:, None] + dims[None, :],
        mask=real,
        other=0.0,
    )
    table = pages + tl.load(page_starts + chunk)
    limits = prefix + token
    # Keys 0 to the first token's own are seen by all rows; from the last token's own on by none.
    seen_by_all = (prefix + first_token + 1) // BLOCK_N * BLOCK_N
    last_token = tl.minimum((tile * BLOCK_M + BLOCK_M - 1) // SHARED, tokens - 1)
    end = prefix + last_token + 1

    maximum = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    weighted = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    keys += kv_head * HEAD_DIM
    values += kv_head * HEAD_DIM
    for begin in tl.range(0, seen_by_all, BLOCK_N):
        maximum, total, weighted = fold_keys(
            query,
            (maximum, total, weighted),
            keys,
            values,
            table,
            begin,
            end,
            limits,
            MASKED=False,
            SCALE=SCALE,
            HEAD_DIM=HEAD_DIM,
            KV_STRIDE=KV_HEADS * HEAD_DIM,
            PAGE_SIZE=PAGE_SIZE,
            BLOCK_N=BLOCK_N,
        )
    for begin in tl.range(seen_by_all, end, BLOCK_N):
        maximum, total, weighted = fold_keys(
            query,
            (maximum, total, weighted),
            keys,
            values,
            table,
            begin,
            end,
            limits,
            MASKED=True,
            SCALE=SCALE,
            HEAD_DIM=HEAD_DIM,
            KV_STRIDE=KV_HEADS * HEAD_DIM,
            PAGE_SIZE=PAGE_SIZE,
            BLOCK_N=BLOCK_N,
        )
    attended = (weighted / total[:, None]).to(out.dtype.element_ty)
    tl.store(out + ((row * HEADS + head) * HEAD_DIM)[:, None] + dims[None, :], attended, mask=real)


@functools.cache
def variant(heads: int, kv_heads: int, head_dim: int, page_size: int, itemsize: int, capability: int) -> Variant:
    """capability: the major number, 8 for an A100, 9 for an H100."""
    tiles = TILES if capability in (9, 10) else SMALL_TILES
    block_m, block_n, warps, stages = tiles[head_dim, itemsize]
    return Variant(
        _attend,
        {
            "HEADS": heads,
            "KV_HEADS": kv_heads,
            "HEAD_DIM": head_dim,
            "PAGE_SIZE": page_size,
            "SCALE": softmax_scale(head_dim),
            "BLOCK_M": block_m,
            "BLOCK_N": block_n,
        },
        options(warps, stages),
    )


def chunk_attention(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    first_rows: torch.Tensor,
    lengths: torch.Tensor,
    page_starts: torch.Tensor,
    pages: torch.Tensor,
    out: torch.Tensor,
    *,
    page_size: int,
    longest_chunk: int,
    capability: int,
) -> None:
    """Rows first_rows[i] to first_rows[i + 1] - 1 of queries and out (tokens, heads, head_dim) are chunk i, the
    last of the lengths[i] tokens of its sequence; each attends to all tokens up to its own.

    first_rows (chunks + 1,), lengths (chunks,), page_starts (chunks,) and pages are int64, longest_chunk is the
    most rows of a chunk, capability the GPU's major one; the rest as in `decode_attention`. Nothing outside the
    sequences is read.
    """
    _, heads, head_dim = queries.shape
    kv_heads = keys.shape[1] // head_dim
    kernel = variant(heads, kv_heads, head_dim, page_size, queries.element_size(), capability)
    tiles = triton.cdiv(longest_chunk * (heads // kv_heads), int(kernel.constants["BLOCK_M"]))
    kernel.launch(
        (tiles, kv_heads, lengths.shape[0]),
        queries,
        out,
        keys,
        values,
        first_rows,
        lengths,
        page_starts,
        pages,
        queries.stride(0),
    )
