"""Residual add with RMSNorm, RoPE with the KV write, SiLU-mul: what lies between the matrix products.

Convention: bytes = each value read once and written once (of add_norm the sum as well as its norm), norm weights, cos
and sin, 8 bytes for each KV slot. FLOPs per value: add_norm 5 (add, square, add, scale, weight), rope 3 (two products
and an add, of queries and keys) and 4 more where heads are normed, silu_mul 5 (exponential, add, division, two
products).
"""

from __future__ import annotations

from collections.abc import Iterable

from ...engine.config import ModelConfig
from .bench import Bench, Operator
from .seam import backend_of, planned, rotate_and_write
from .timing import Call

FAMILY = "pointwise"
SLOT_BYTES = 8


def operators(config: ModelConfig, item: int, tokens: Iterable[int], norm_tokens: Iterable[int] = ()) -> list[Operator]:
    """norm_tokens: further counts for the norm, such as the sequences of the last one."""
    every = list(tokens)
    return [
        *(_add_norm(config, item, t) for t in sorted({*every, *norm_tokens})),
        *(_rope_write(config, item, t) for t in every),
        *(_silu_mul(config, item, t) for t in every),
    ]


def _add_norm(config: ModelConfig, item: int, tokens: int) -> Operator:
    hidden = config.hidden_size

    def make(bench: Bench) -> Call:
        rows, branch, weight = bench.take(tokens, hidden), bench.take(tokens, hidden), bench.take(hidden)
        add_norm, eps = backend_of(bench.engine).add_norm, config.rms_norm_eps
        return lambda: add_norm(rows, branch, weight, eps)

    read = item * (2 * tokens + 1) * hidden
    return Operator(
        FAMILY, "add_norm", {"tokens": tokens}, read + item * 2 * tokens * hidden, 5 * tokens * hidden, read, make
    )


def _rope_write(config: ModelConfig, item: int, tokens: int) -> Operator:
    width = config.query_size + 2 * config.kv_size

    def make(bench: Bench) -> Call:
        engine, projected = bench.engine, bench.take(tokens, width)
        plan = planned(engine, [], [bench.chunk(tokens, 0)])
        return lambda: rotate_and_write(engine, projected, plan)

    norms = 2 * config.head_dim * config.qk_norm
    read = item * (tokens * (width + 2 * config.head_dim) + norms) + SLOT_BYTES * tokens
    return Operator(
        FAMILY,
        "rope_write",
        {"tokens": tokens},
        read + item * tokens * width,
        (3 + 4 * config.qk_norm) * tokens * (config.query_size + config.kv_size),
        read,
        make,
        kv_tokens=tokens + 15,
    )


def _silu_mul(config: ModelConfig, item: int, tokens: int) -> Operator:
    width = config.intermediate_size

    def make(bench: Bench) -> Call:
        gate_up = bench.take(tokens, 2 * width)
        silu_mul = backend_of(bench.engine).silu_mul
        return lambda: silu_mul(gate_up)

    read = item * tokens * 2 * width
    return Operator(
        FAMILY, "silu_mul", {"tokens": tokens}, read + item * tokens * width, 5 * tokens * width, read, make
    )
