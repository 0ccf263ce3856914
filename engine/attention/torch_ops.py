"""The reference backend: plain torch operations. Only slots inside a sequence's context are ever read."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from ..config import ModelConfig
from ..kv_cache import PAGE_SIZE
from ..rope import rotate, rotation
from ..step import Step

# Queries of a chunk go in blocks, each against the keys up to its own end: half of the causal square is
# not computed, and the mask stays (QUERY_BLOCK, length) instead of (chunk, length).
QUERY_BLOCK = 512
# Gathers as many keys as the batch at hand has.
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
class Plan:
    """How each row of the pass turns, where it writes and what it reads, on the device."""

    cos: torch.Tensor  # (tokens, 1, head_dim)
    signed_sin: torch.Tensor
    slots: torch.Tensor  # (tokens,)
    decodes: tuple[_Decodes, ...]
    chunks: tuple[_Chunk, ...]
    causal_mask: torch.Tensor | None  # (QUERY_BLOCK, longest chunk with prefix), aligned at its lower right


def problem(config: ModelConfig, device: torch.device, dtype: torch.dtype) -> str | None:
    return None


def plan(step: Step, config: ModelConfig, frequencies: torch.Tensor, dtype: torch.dtype) -> Plan:
    """Gather indices and masks of `step`; masks are added to scores of `dtype`."""
    cos, signed_sin = rotation(step.positions, frequencies, dtype)
    return Plan(
        cos,
        signed_sin,
        step.slots,
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
    queries_keys: torch.Tensor,
    new_values: torch.Tensor,
    query_norm: torch.Tensor | None,
    key_norm: torch.Tensor | None,
    eps: float,
    keys: torch.Tensor,
    values: torch.Tensor,
    plan: Plan,
) -> torch.Tensor:
    heads = queries_keys.shape[1] - new_values.shape[1]
    if query_norm is not None:
        size, parts = queries_keys.shape[2:], (queries_keys[:, :heads], queries_keys[:, heads:])
        norms = zip(parts, (query_norm, key_norm), strict=True)
        queries_keys = torch.cat([F.rms_norm(part, size, weight, eps) for part, weight in norms], 1)
    turned = rotate(queries_keys, plan.cos, plan.signed_sin)
    keys.index_copy_(0, plan.slots, turned[:, heads:].flatten(1))
    values.index_copy_(0, plan.slots, new_values.flatten(1))
    return turned[:, :heads]


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up


def attend(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, plan: Plan, out: torch.Tensor) -> None:
    """Decodes by groups of similar length, chunks one by one; no key is repeated in memory."""
    for group in plan.decodes:
        _attend_decodes(queries, keys, values, group, out)
    for chunk in plan.chunks:
        assert plan.causal_mask is not None  # planned whenever there are chunks
        _attend_chunk(queries, keys, values, chunk, plan.causal_mask, out)


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
    device = step.token_ids.device
    longest = max(rows.length for rows in step.chunks)
    block = min(QUERY_BLOCK, max(rows.tokens for rows in step.chunks))
    # Fused GPU kernels want rows of a mask that start at multiples of 16 elements.
    width = -(-longest // 16) * 16
    own = torch.arange(width - block, width, device=device)
    later = torch.arange(width, device=device) > own.unsqueeze(1)
    return torch.zeros((block, width), device=device, dtype=dtype).masked_fill_(later, -torch.inf)


def _attend_decodes(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, group: _Decodes, out: torch.Tensor
) -> None:
    head_dim = queries.shape[-1]
    # (count, kv_heads, longest, head_dim); the query heads of one KV head stand where positions would.
    per_sequence = (group.count, -1, keys.shape[1] // head_dim, head_dim)
    attended = F.scaled_dot_product_attention(
        queries[group.rows].view(group.count, per_sequence[2], -1, head_dim),
        keys.index_select(0, group.slots).view(per_sequence).transpose(1, 2),
        values.index_select(0, group.slots).view(per_sequence).transpose(1, 2),
        attn_mask=group.mask,
    )
    out[group.rows] = attended.flatten(1, 2)


def _attend_chunk(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    chunk: _Chunk,
    causal_mask: torch.Tensor,
    out: torch.Tensor,
) -> None:
    _, heads, head_dim = queries.shape
    kv_heads = keys.shape[1] // head_dim
    shared = heads // kv_heads
    length = chunk.slots.shape[0]
    # (shared, kv_heads, length, head_dim), with stride 0 over the query heads that share a KV head.
    chunk_keys, chunk_values = (
        pool.index_select(0, chunk.slots).view(length, kv_heads, head_dim).transpose(0, 1).expand(shared, -1, -1, -1)
        for pool in (keys, values)
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
