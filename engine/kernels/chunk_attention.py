"""Paged causal attention of prefill chunks: the new tokens of each sequence against its prefix and themselves.

A tile's rows are (token, query head) pairs of one KV head: keys are read once for all rows, a chunk of a few tokens
fills a tile, and the number of heads need not be a power of two. A few tokens after a long prefix would occupy a few
programs only: their keys are split over more programs, whose parts `reduce_splits` combines.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import triton
import triton.language as tl

from . import Variant, options
from .online_softmax import fold_keys, reduce_splits, softmax_scale, workspace

if TYPE_CHECKING:
    import torch

# (head_dim, bytes of an element): rows of a tile, keys of a block, warps, stages. The loads of keys wait for the
# loads of page ids, so of five stages two hold keys and values.
TILES = {
    (32, 2): (64, 64, 4, 5),
    (64, 2): (128, 128, 8, 5),
    (128, 2): (128, 64, 8, 5),
    (32, 4): (64, 32, 4, 3),
    (64, 4): (32, 32, 8, 3),
    (128, 4): (16, 32, 8, 3),
}
# For GPUs other than Hopper and data-centre Blackwell (capability 9 and 10): their products read both operands from
# registers, which hold half the keys without spilling; and consumer cards have 99 KB of shared memory.
SMALL_TILES = TILES | {
    (32, 2): (64, 32, 4, 3),
    (64, 2): (128, 64, 8, 5),
    (128, 2): (128, 32, 8, 5),
}
# Estimated, not measured: reading fewer keys takes less time than starting the reduction.
LEAST_KEYS_PER_SPLIT = 512
# Limits the memory of parts in an uneven batch, where short chunks have parts too.
MOST_PROGRAMS_PER_PROCESSOR = 16


@triton.jit(
    do_not_specialize=["keys_per_split"],
    do_not_specialize_on_alignment=["first_rows", "lengths", "page_starts", "pages"],
)
def _attend(
    queries,  # (tokens, HEADS, HEAD_DIM), rows query_stride apart
    out,  # (tokens, HEADS, HEAD_DIM)
    partials,  # (tokens, HEADS, splits, HEAD_DIM) float32
    log_totals,  # (tokens, HEADS, splits) float32: log2 of the sum of exponentials, -inf of no keys
    keys,  # (slots, KV_HEADS, HEAD_DIM)
    values,
    first_rows,  # (chunks + 1,) int64, less first_rows[0] the rows here
    lengths,  # (chunks,) int64: prefix and chunk
    page_starts,  # (chunks,) int64
    pages,  # int64
    query_stride,
    keys_per_split,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    SCALE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    SPLIT: tl.constexpr,
):
    SHARED: tl.constexpr = HEADS // KV_HEADS
    # Later tiles see more keys; the longest work starts first.
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    # Programs that read the same keys for different rows are neighbours.
    kv_head = tl.program_id(1) % KV_HEADS
    split = tl.program_id(1) // KV_HEADS
    splits = tl.num_programs(1) // KV_HEADS
    chunk = tl.program_id(2)
    first_row = tl.load(first_rows + chunk)
    tokens = (tl.load(first_rows + chunk + 1) - first_row).to(tl.int32)
    first_token = tile * BLOCK_M // SHARED
    if first_token >= tokens:
        return

    prefix = tl.load(lengths + chunk).to(tl.int32) - tokens
    pair = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    token = pair // SHARED
    real = token < tokens
    # Of the first pair; int64, and from there on offsets within a tile, which are small.
    row = first_row - tl.load(first_rows) + first_token
    token_in_tile = token - first_token
    head = pair % SHARED
    first_part = (row * HEADS + kv_head * SHARED) * splits + split
    part = (token_in_tile * HEADS + head) * splits
    # Keys 0 to the first token's own are seen by all rows; from the last token's own on by none.
    seen_by_all = (prefix + first_token + 1) // BLOCK_N * BLOCK_N
    last_token = tl.minimum((tile * BLOCK_M + BLOCK_M - 1) // SHARED, tokens - 1)
    end = prefix + last_token + 1
    # Keys that all rows see are divided; the last share extends to the end, so every row has a key in every share.
    first = 0
    first_masked = seen_by_all
    end_masked = end
    if SPLIT:
        first = split * keys_per_split
        if (split > 0) & (first >= seen_by_all):
            tl.store(log_totals + first_part + part, tl.full([BLOCK_M], float("-inf"), tl.float32), mask=real)
            return
        first_masked = tl.minimum(first + keys_per_split, seen_by_all)
        end_masked = tl.where(first_masked < seen_by_all, first_masked, end)

    dims = tl.arange(0, HEAD_DIM)
    query = tl.load(
        queries
        + row * query_stride
        + kv_head * SHARED * HEAD_DIM
        + (token_in_tile * query_stride + head * HEAD_DIM)[:, None]
        + dims[None, :],
        mask=real[:, None],
        other=0.0,
    )
    table = pages + tl.load(page_starts + chunk)
    state = (
        tl.full([BLOCK_M], float("-inf"), tl.float32),
        tl.zeros([BLOCK_M], tl.float32),
        tl.zeros([BLOCK_M, HEAD_DIM], tl.float32),
    )
    sequence = (keys + kv_head * HEAD_DIM, values + kv_head * HEAD_DIM, table, prefix + token)
    STRIDE: tl.constexpr = KV_HEADS * HEAD_DIM
    state = fold_keys(
        query, state, sequence, first, first_masked, end, SCALE, HEAD_DIM, STRIDE, PAGE_SIZE, BLOCK_N, MASKED=False
    )
    maximum, total, weighted = fold_keys(
        query, state, sequence, first_masked, end_masked, end, SCALE, HEAD_DIM, STRIDE, PAGE_SIZE, BLOCK_N, MASKED=True
    )
    attended = weighted / total[:, None]
    if SPLIT:
        partials += first_part * HEAD_DIM
        tl.store(partials + (part * HEAD_DIM)[:, None] + dims[None, :], attended, mask=real[:, None])
        tl.store(log_totals + first_part + part, maximum + tl.log2(total), mask=real)
    else:
        out += (row * HEADS + kv_head * SHARED) * HEAD_DIM
        at = (token_in_tile * HEADS + head) * HEAD_DIM
        tl.store(out + at[:, None] + dims[None, :], attended.to(out.dtype.element_ty), mask=real[:, None])


def tile_of(head_dim: int, itemsize: int, capability: int) -> tuple[int, int, int, int]:
    """Rows of a tile, keys of a block, warps, stages. capability: the major number, 8 for an A100, 9 for an H100."""
    return (TILES if capability in (9, 10) else SMALL_TILES)[head_dim, itemsize]


@functools.cache
def variant(
    heads: int, kv_heads: int, head_dim: int, page_size: int, itemsize: int, capability: int, split: bool
) -> Variant:
    """split: leaves parts for `reduce_splits` instead of the result."""
    block_m, block_n, warps, stages = tile_of(head_dim, itemsize, capability)
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
            "SPLIT": split,
        },
        options(warps, stages),
    )


@dataclass(frozen=True, slots=True)
class ChunkGrid:
    """Programs for the chunks of one batch: tiles of its longest chunk by splits of its longest sequence."""

    rows: int  # of all chunks
    tiles: int
    splits: int
    keys_per_split: int  # whole blocks; what is shorter is not split


def grid_for(
    chunks: Sequence[tuple[int, int]], shared: int, kv_heads: int, tile: tuple[int, int, int, int], processors: int
) -> ChunkGrid:
    """chunks: (tokens, tokens with the prefix) of at least one; shared: query heads of a KV head; tile: `tile_of`.

    Registers and shared memory hold one program on a processor. Keys are split as far as that many programs fill
    the processors and no further, since a second round would cost what the split saves; in an uneven batch the
    longest sequence gets the programs that its share of all the work is worth.
    """
    block_m, block_n, _, _ = tile
    tiles = [triton.cdiv(tokens * shared, block_m) for tokens, _ in chunks]
    longest = max(length for _, length in chunks)
    work = sum(count * length for count, (_, length) in zip(tiles, chunks, strict=True))
    splits = min(
        processors * longest // (kv_heads * work),
        longest // LEAST_KEYS_PER_SPLIT,
        MOST_PROGRAMS_PER_PROCESSOR * processors // (kv_heads * sum(tiles)),
    )
    keys_per_split = triton.cdiv(triton.cdiv(longest, max(1, splits)), block_n) * block_n
    return ChunkGrid(
        sum(tokens for tokens, _ in chunks), max(tiles), triton.cdiv(longest, keys_per_split), keys_per_split
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
    grid: ChunkGrid,
    capability: int,
) -> None:
    """Rows first_rows[i] to first_rows[i + 1] - 1, counted from first_rows[0], of queries and out (grid.rows, heads,
    head_dim) are chunk i, the last of the lengths[i] tokens of its sequence; each attends to all up to its own.

    first_rows (chunks + 1,), lengths (chunks,), page_starts (chunks,) and pages are int64, capability the GPU's
    major one; the rest as in `decode_attention`. Nothing outside the sequences is read.
    """
    _, heads, head_dim = queries.shape
    kv_heads = keys.shape[1] // head_dim
    split = grid.splits > 1
    partials, log_totals = workspace(out, grid.splits)
    variant(heads, kv_heads, head_dim, page_size, queries.element_size(), capability, split).launch(
        (grid.tiles, kv_heads * grid.splits, lengths.shape[0]),
        queries,
        out,
        partials,
        log_totals,
        keys,
        values,
        first_rows,
        lengths,
        page_starts,
        pages,
        queries.stride(0),
        grid.keys_per_split,
    )
    if split:
        reduce_splits(partials, log_totals, out)
