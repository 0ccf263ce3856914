"""RMSNorm, RoPE with the KV write, SiLU-mul: what lies between the matrix products.

Convention: bytes = each value read once and written once, norm weights, cos and sin, 8 bytes for each KV slot.
FLOPs per value: norm 4 (square, add, scale, weight), rope 3 (two products and an add, of queries and keys), silu_mul
5 (exponential, add, division, two products).
"""

from __future__ import annotations

from collections.abc import Iterable

from ...engine.config import ModelConfig
from .bench import Bench, Operator
from .seam import norm, rope_write, silu_mul
from .timing import Call

FAMILY = "pointwise"
SLOT_BYTES = 8


def operators(config: ModelConfig, item: int, tokens: Iterable[int], norm_tokens: Iterable[int] = ()) -> list[Operator]:
    """norm_tokens: further counts for the norm, such as the sequences of the last one."""
    every = list(tokens)
    return [
        *(_norm(config, item, t) for t in sorted({*every, *norm_tokens})),
        *(_rope_write(config, item, t) for t in every),
        *(_silu_mul(config, item, t) for t in every),
    ]


def _norm(config: ModelConfig, item: int, tokens: int) -> Operator:
    hidden = config.hidden_size

    def make(bench: Bench) -> Call:
        rows, weight = bench.take(tokens, hidden), bench.take(hidden)
        return lambda: norm(rows, weight, config)

    read = item * (tokens + 1) * hidden
    return Operator(FAMILY, "norm", {"tokens": tokens}, read + item * tokens * hidden, 4 * tokens * hidden, read, make)


def _rope_write(config: ModelConfig, item: int, tokens: int) -> Operator:
    width = config.query_size + 2 * config.kv_size

    def make(bench: Bench) -> Call:
        projected, rotations, slots = bench.take(tokens, width), bench.rotations(tokens), bench.slots(tokens)
        keys, values = bench.engine.cache.layer(0)
        return lambda: rope_write(projected, rotations, keys, values, slots, config)

    read = item * tokens * (width + 2 * config.head_dim) + SLOT_BYTES * tokens
    return Operator(
        FAMILY,
        "rope_write",
        {"tokens": tokens},
        read + item * tokens * width,
        3 * tokens * (config.query_size + config.kv_size),
        read,
        make,
        kv_tokens=tokens + 15,
    )


def _silu_mul(config: ModelConfig, item: int, tokens: int) -> Operator:
    width = config.intermediate_size

    def make(bench: Bench) -> Call:
        gate_up = bench.take(tokens, 2 * width)
        return lambda: silu_mul(gate_up)

    read = item * tokens * 2 * width
    return Operator(
        FAMILY, "silu_mul", {"tokens": tokens}, read + item * tokens * width, 5 * tokens * width, read, make
    )
