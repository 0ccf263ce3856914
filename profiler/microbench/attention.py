"""Attention of one layer: n decodes of equal context, and one chunk after its prefix.

Convention: FLOPs = 4 x query width x pairs of query and key (a multiply and an add for scores, the same for values).
A decode has as many pairs as its context; a chunk the pairs that the causal mask allows, c (u + (c + 1) / 2). Not
counted: the softmax, and what a backend computes above the diagonal. Bytes = keys and values of every sequence once,
queries read, results written. What a backend copies, pads or indexes beyond that lowers its fraction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...engine.config import ModelConfig
from ...engine.host_step import SequenceWork
from ...engine.memory import page_slack
from .cold_timing import Call
from .engine_calls import attention
from .operator_buffers import Operator, OperatorBuffers

DECODE, CHUNK = "decode_attention", "chunk_attention"
Works = tuple[list[SequenceWork], list[SequenceWork]]  # (decodes, chunks)


def decode_operators(config: ModelConfig, item: int, states: Iterable[tuple[int, int]]) -> list[Operator]:
    """states: (decodes, context tokens)."""
    return [_decode_operator(config, item, n, k) for n, k in states]


def chunk_operators(config: ModelConfig, item: int, states: Iterable[tuple[int, int]]) -> list[Operator]:
    """states: (chunk tokens, prefix tokens)."""
    return [_chunk_operator(config, item, c, u) for c, u in states]


def _decode_operator(config: ModelConfig, item: int, decodes: int, context_tokens: int) -> Operator:
    keys_values = item * decodes * context_tokens * 2 * config.kv_size
    return Operator(
        DECODE,
        DECODE,
        {"decodes": decodes, "context_tokens": context_tokens},
        keys_values + item * 2 * decodes * config.query_size,
        4 * decodes * context_tokens * config.query_size,
        keys_values,
        _maker(config, decodes, lambda buffers: (buffers.decodes(decodes, context_tokens), [])),
        kv_tokens=decodes * context_tokens + page_slack(decodes),
    )


def _chunk_operator(config: ModelConfig, item: int, chunk_tokens: int, prefix_tokens: int) -> Operator:
    length = prefix_tokens + chunk_tokens
    keys_values = item * length * 2 * config.kv_size
    pairs = chunk_tokens * prefix_tokens + chunk_tokens * (chunk_tokens + 1) // 2
    return Operator(
        CHUNK,
        CHUNK,
        {"chunk_tokens": chunk_tokens, "prefix_tokens": prefix_tokens},
        keys_values + item * 2 * chunk_tokens * config.query_size,
        4 * pairs * config.query_size,
        keys_values + item * chunk_tokens * config.query_size,
        _maker(config, chunk_tokens, lambda buffers: ([], [buffers.chunk(chunk_tokens, prefix_tokens)])),
        kv_tokens=length + page_slack(1),
    )


def _maker(
    config: ModelConfig, tokens: int, works: Callable[[OperatorBuffers], Works]
) -> Callable[[OperatorBuffers], Call]:
    def make(buffers: OperatorBuffers) -> Call:
        queries = buffers.take(tokens, config.heads, config.head_dim)
        return attention(buffers.engine, *works(buffers), queries)

    return make
