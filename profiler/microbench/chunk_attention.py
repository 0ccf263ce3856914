"""Attention of one chunk after its prefix, one layer.

Convention: FLOPs = 4 x query width x the pairs that the causal mask lets through, c (u + (c + 1) / 2); the softmax
is not counted, nor what a backend computes above the diagonal. Bytes = keys and values of prefix and chunk once,
queries read, results written.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...engine.config import ModelConfig
from .bench import Bench, Operator
from .seam import attention
from .timing import Call

FAMILY = "chunk_attention"


def operators(config: ModelConfig, item: int, states: Iterable[tuple[int, int]]) -> list[Operator]:
    """states: (chunk tokens, prefix tokens)."""
    return [_operator(config, item, c, u) for c, u in states]


def _operator(config: ModelConfig, item: int, chunk_tokens: int, prefix_tokens: int) -> Operator:
    def make(bench: Bench) -> Call:
        queries = bench.take(chunk_tokens, config.heads, config.head_dim)
        return attention(bench.engine, [], [bench.chunk(chunk_tokens, prefix_tokens)], queries)

    length = prefix_tokens + chunk_tokens
    keys_values = item * length * 2 * config.kv_size
    pairs = chunk_tokens * prefix_tokens + chunk_tokens * (chunk_tokens + 1) // 2
    return Operator(
        FAMILY,
        "chunk_attention",
        {"chunk_tokens": chunk_tokens, "prefix_tokens": prefix_tokens},
        keys_values + item * 2 * chunk_tokens * config.query_size,
        4 * pairs * config.query_size,
        keys_values + item * chunk_tokens * config.query_size,
        make,
        kv_tokens=length + 15,
    )
