"""The reference backend: plain torch operations. Only slots inside a sequence's context are ever read."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from ..config import ModelConfig
from ..kv_cache import PAGE_SIZE, LayerCache
from ..rope import rotate, rotation
from ..step import Step
from .base import HeadNorms

# Queries of a chunk are cut into blocks, each against the keys up to its end: half of the causal square is not
# computed, and the mask is (QUERY_BLOCK, length) instead of (chunk, length).
QUERY_BLOCK = 512
# The number of gathered keys depends on the batch.
CAPTURES_DECODES = False


@dataclass(frozen=True, slots=True)
class _Decodes:
    rows: slice
    count: int
    slots: torch.Tensor  # (count * longest,)
    mask: torch.Tensor  # (count, 1, 1, longest), 0 or -inf


@dataclass(frozen=True, slots=True)
class _Chunk:
    first_row: int
    tokens: int
    slots: torch.Tensor  # (prefix + tokens,)


@dataclass(frozen=True, slots=True)
class TorchPlan:
    """Rotation, slots, gather indices and masks of one pass, on the device."""

    cos: torch.Tensor  # (tokens, 1, head_dim)
    signed_sin: torch.Tensor
    slots: torch.Tensor  # (tokens,)
    decodes: tuple[_Decodes, ...]
    chunks: tuple[_Chunk, ...]
    causal_mask: torch.Tensor | None  # (QUERY_BLOCK, longest chunk with prefix), aligned at its lower right


def problem(config: ModelConfig, device: torch.device, dtype: torch.dtype) -> str | None:
    return None


def plan(step: Step, config: ModelConfig, frequencies: torch.Tensor, dtype: torch.dtype) -> TorchPlan:
    """Gather indices and masks of `step`; masks are added to scores of `dtype`."""
    cos, signed_sin = rotation(step.arrays.positions, frequencies, dtype)
    return TorchPlan(
        cos,
        signed_sin,
        step.arrays.slots,
        tuple(_plan_decodes(step, dtype)),
        tuple(_Chunk(rows.first_row, rows.tokens, _slots(rows.block_table)[: rows.length]) for rows in step.chunks),
        _causal_mask(step, dtype) if step.chunks else None,
    )


def add_norm(
    hidden: torch.Tensor, branch: torch.Tensor | None, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = hidden if branch is None else hidden + branch
    return F.rms_norm(hidden, (hidden.shape[1],), weight, eps), hidden


def rotate_and_write(
    heads: torch.Tensor,
    norms: HeadNorms | None,
    cache: LayerCache,
    plan: TorchPlan,
) -> torch.Tensor:
    kv_heads = cache.keys.shape[1] // heads.shape[2]
    query_heads = heads.shape[1] - 2 * kv_heads
    queries_keys, values = heads[:, : query_heads + kv_heads], heads[:, query_heads + kv_heads :]
    if norms is not None:
        size, parts = heads.shape[2:], (queries_keys[:, :query_heads], queries_keys[:, query_heads:])
        weights = zip(parts, (norms.query, norms.key), strict=True)
        queries_keys = torch.cat([F.rms_norm(part, size, weight, norms.eps) for part, weight in weights], 1)
    turned = rotate(queries_keys, plan.cos, plan.signed_sin)
    cache.keys.index_copy_(0, plan.slots, turned[:, query_heads:].flatten(1))
    cache.values.index_copy_(0, plan.slots, values.flatten(1))
    return turned[:, :query_heads]


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up


def attend(queries: torch.Tensor, cache: LayerCache, plan: TorchPlan, out: torch.Tensor) -> None:
    """Decodes by groups of similar length, chunks one by one; no key is repeated in memory."""
    for group in plan.decodes:
        _attend_decodes(queries, cache, group, out)
    for chunk in plan.chunks:
        assert plan.causal_mask is not None  # planned whenever there are chunks
        _attend_chunk(queries, cache, chunk, plan.causal_mask, out)


def _slots(block_table: torch.Tensor) -> torch.Tensor:
    """Slots of all entries of the pages: (..., pages) -> (..., pages * PAGE_SIZE)."""
    entries = torch.arange(PAGE_SIZE, device=block_table.device)
    return (block_table.unsqueeze(-1) * PAGE_SIZE + entries).flatten(-2)


def _plan_decodes(step: Step, dtype: torch.dtype) -> list[_Decodes]:
    planned = []
    for group in step.decodes:
        slots = _slots(group.block_table)[:, : group.longest]
        inside = torch.arange(group.longest, device=slots.device) < group.contexts.unsqueeze(1)
        # Padding repeats the sequence's own first token: finite whatever lies in the rest of the pool,
        # where an infinite or NaN value would survive the mask (0 * NaN is NaN).
        slots = torch.where(inside, slots, slots[:, :1]).flatten()
        mask = torch.zeros(inside.shape, device=slots.device, dtype=dtype).masked_fill_(~inside, -torch.inf)
        rows = slice(group.first_row, group.first_row + group.count)
        planned.append(_Decodes(rows, group.count, slots, mask[:, None, None, :]))
    return planned


def _causal_mask(step: Step, dtype: torch.dtype) -> torch.Tensor:
    """Row i of the last QUERY_BLOCK positions of the longest chunk may see key j up to its own position.

    Aligned at the lower right, so that its last r rows and last L columns are the mask of any block of r
    queries that ends at position L.
    """
    device = step.arrays.token_ids.device
    longest = max(rows.length for rows in step.chunks)
    block = min(QUERY_BLOCK, max(rows.tokens for rows in step.chunks))
    # Fused GPU kernels want rows of a mask that start at multiples of 16 elements.
    width = -(-longest // 16) * 16
    positions = torch.arange(width - block, width, device=device)
    later = torch.arange(width, device=device) > positions.unsqueeze(1)
    return torch.zeros((block, width), device=device, dtype=dtype).masked_fill_(later, -torch.inf)


def _attend_decodes(queries: torch.Tensor, cache: LayerCache, group: _Decodes, out: torch.Tensor) -> None:
    head_dim = queries.shape[-1]
    # (count, kv_heads, longest, head_dim); the query heads of one KV head stand where positions would.
    per_sequence = (group.count, -1, cache.keys.shape[1] // head_dim, head_dim)
    attended = F.scaled_dot_product_attention(
        queries[group.rows].view(group.count, per_sequence[2], -1, head_dim),
        cache.keys.index_select(0, group.slots).view(per_sequence).transpose(1, 2),
        cache.values.index_select(0, group.slots).view(per_sequence).transpose(1, 2),
        attn_mask=group.mask,
    )
    out[group.rows] = attended.flatten(1, 2)


def _attend_chunk(
    queries: torch.Tensor,
    cache: LayerCache,
    chunk: _Chunk,
    causal_mask: torch.Tensor,
    out: torch.Tensor,
) -> None:
    _, heads, head_dim = queries.shape
    kv_heads = cache.keys.shape[1] // head_dim
    shared = heads // kv_heads
    length = chunk.slots.shape[0]
    # (shared, kv_heads, length, head_dim), with stride 0 over the query heads that share a KV head.
    chunk_keys, chunk_values = (
        pool.index_select(0, chunk.slots).view(length, kv_heads, head_dim).transpose(0, 1).expand(shared, -1, -1, -1)
        for pool in cache
    )
    for first in range(0, chunk.tokens, QUERY_BLOCK):
        block = min(QUERY_BLOCK, chunk.tokens - first)
        end = length - chunk.tokens + first + block
        rows = slice(chunk.first_row + first, chunk.first_row + first + block)
        attended = F.scaled_dot_product_attention(
            queries[rows].view(block, kv_heads, shared, head_dim).permute(2, 1, 0, 3),
            chunk_keys[:, :, :end],
            chunk_values[:, :, :end],
            attn_mask=causal_mask[-block:, -end:],
        )
        out[rows] = attended.permute(2, 1, 0, 3).flatten(1, 2)
