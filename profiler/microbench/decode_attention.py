"""Attention of n decodes of equal context, one layer.

Convention: FLOPs = 4 x n x context x query width (a multiply and an add for scores, the same for values; the
softmax is not counted). Bytes = keys and values of every context once, queries read, results written; what a
backend copies, pads or indexes beside that is its own affair and lowers its fraction.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...engine.config import ModelConfig
from .bench import Bench, Operator
from .seam import attention
from .timing import Call

FAMILY = "decode_attention"


def operators(config: ModelConfig, item: int, states: Iterable[tuple[int, int]]) -> list[Operator]:
    """states: (decodes, context tokens)."""
    return [_operator(config, item, n, k) for n, k in states]


def _operator(config: ModelConfig, item: int, decodes: int, context_tokens: int) -> Operator:
    def make(bench: Bench) -> Call:
        queries = bench.take(decodes, config.heads, config.head_dim)
        return attention(bench.engine, bench.decodes(decodes, context_tokens), [], queries)

    keys_values = item * decodes * context_tokens * 2 * config.kv_size
    return Operator(
        FAMILY,
        "decode_attention",
        {"decodes": decodes, "context_tokens": context_tokens},
        keys_values + item * 2 * decodes * config.query_size,
        4 * decodes * context_tokens * config.query_size,
        keys_values,
        make,
        kv_tokens=decodes * (context_tokens + 15),
    )
