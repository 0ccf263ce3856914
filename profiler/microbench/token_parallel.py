"""The token-parallel part of one layer: its matrix products, the operators between them, and all of them in order.

Conventions. Matrix product: FLOPs = 2 x tokens x inputs x outputs; bytes = the matrix once, rows read and written; rows
of lm_head are sequences. Pointwise operator: bytes = each value read once and written once (of add_norm the sum as well
as its norm), norm weights, cos and sin, 8 bytes for each KV slot. FLOPs per value: add_norm 5 (add, square, add,
scale, weight), rope 3 (two products and an add, of queries and keys) and 4 more where heads are normed, silu_mul 5
(exponential, add, division, two products). Whole part: the sums of its operators. Its curve over token counts is flat
while weights stream and bends where arithmetic takes longer: the ridge.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...engine.config import ModelConfig
from ...engine.memory import page_slack
from .cold_timing import Call
from .engine_calls import backend_of, bias_of, planned, project, rotate_and_write
from .operator_buffers import Operator, OperatorBuffers

PRODUCT, POINTWISE, WHOLE = "gemm", "pointwise", "token_parallel"
SLOT_BYTES = 8
# Operators of the whole part -> how often each runs.
PARTS = {
    "add_norm": 2,
    "query_key_value": 1,
    "rope_write": 1,
    "attention_out": 1,
    "gate_up": 1,
    "silu_mul": 1,
    "down": 1,
}


def product_shapes(config: ModelConfig) -> dict[str, tuple[int, int]]:
    """name -> (outputs, inputs), of one layer, and lm_head of the model."""
    return {
        "query_key_value": (config.query_size + 2 * config.kv_size, config.hidden_size),
        "attention_out": (config.hidden_size, config.query_size),
        "gate_up": (2 * config.intermediate_size, config.hidden_size),
        "down": (config.hidden_size, config.intermediate_size),
        "lm_head": (config.vocab_size, config.hidden_size),
    }


def product_operators(
    config: ModelConfig, item: int, tokens: Iterable[int], sequences: Iterable[int]
) -> list[Operator]:
    """Matrix products; sequences: row counts of lm_head. item: bytes of a value, here and below."""
    counts = {"lm_head": list(sequences)}
    every = list(tokens)
    return [_product(config, item, name, rows) for name in product_shapes(config) for rows in counts.get(name, every)]


def pointwise_operators(
    config: ModelConfig, item: int, tokens: Iterable[int], norm_tokens: Iterable[int] = ()
) -> list[Operator]:
    """norm_tokens: further counts for the norm, such as the sequences of the last one."""
    every = list(tokens)
    return [
        *(_add_norm(config, item, t) for t in sorted({*every, *norm_tokens})),
        *(_rope_write(config, item, t) for t in every),
        *(_silu_mul(config, item, t) for t in every),
    ]


def whole_operators(config: ModelConfig, item: int, tokens: Iterable[int]) -> list[Operator]:
    """The whole token-parallel part of a layer."""
    return [_whole(config, item, t) for t in tokens]


def _product(config: ModelConfig, item: int, name: str, tokens: int) -> Operator:
    outputs, inputs = product_shapes(config)[name]

    def make(buffers: OperatorBuffers) -> Call:
        weight, rows = buffers.take(outputs, inputs), buffers.take(tokens, inputs)
        bias = bias_of(buffers.engine, name)
        return lambda: project(rows, weight, bias)

    values = outputs * inputs + tokens * (inputs + outputs)
    flops = 2 * tokens * inputs * outputs
    return Operator(PRODUCT, name, {"tokens": tokens}, item * values, flops, item * outputs * inputs, make)


def _add_norm(config: ModelConfig, item: int, tokens: int) -> Operator:
    hidden = config.hidden_size

    def make(buffers: OperatorBuffers) -> Call:
        rows, branch, weight = buffers.take(tokens, hidden), buffers.take(tokens, hidden), buffers.take(hidden)
        add_norm, eps = backend_of(buffers.engine).add_norm, config.rms_norm_eps
        return lambda: add_norm(rows, branch, weight, eps)

    read, written = item * (2 * tokens + 1) * hidden, item * 2 * tokens * hidden
    return Operator(POINTWISE, "add_norm", {"tokens": tokens}, read + written, 5 * tokens * hidden, read, make)


def _rope_write(config: ModelConfig, item: int, tokens: int) -> Operator:
    width = config.query_size + 2 * config.kv_size

    def make(buffers: OperatorBuffers) -> Call:
        engine, projected = buffers.engine, buffers.take(tokens, width)
        plan = planned(engine, [], [buffers.chunk(tokens, 0)])
        return lambda: rotate_and_write(engine, projected, plan)

    norms = 2 * config.head_dim * config.qk_norm
    read = item * (tokens * (width + 2 * config.head_dim) + norms) + SLOT_BYTES * tokens
    return Operator(
        POINTWISE,
        "rope_write",
        {"tokens": tokens},
        read + item * tokens * width,
        (3 + 4 * config.qk_norm) * tokens * (config.query_size + config.kv_size),
        read,
        make,
        kv_tokens=tokens + page_slack(1),
    )


def _silu_mul(config: ModelConfig, item: int, tokens: int) -> Operator:
    width = config.intermediate_size

    def make(buffers: OperatorBuffers) -> Call:
        gate_up = buffers.take(tokens, 2 * width)
        silu_mul = backend_of(buffers.engine).silu_mul
        return lambda: silu_mul(gate_up)

    read, written = item * tokens * 2 * width, item * tokens * width
    return Operator(POINTWISE, "silu_mul", {"tokens": tokens}, read + written, 5 * tokens * width, read, make)


def _whole(config: ModelConfig, item: int, tokens: int) -> Operator:
    def make(buffers: OperatorBuffers) -> Call:
        engine, backend, eps = buffers.engine, backend_of(buffers.engine), config.rms_norm_eps
        hidden, branch = buffers.take(tokens, config.hidden_size), buffers.take(tokens, config.hidden_size)
        norms = buffers.take(config.hidden_size), buffers.take(config.hidden_size)
        query_key_value, attention_out, gate_up, down = (
            buffers.take(*product_shapes(config)[name])
            for name in ("query_key_value", "attention_out", "gate_up", "down")
        )
        plan, bias = planned(engine, [], [buffers.chunk(tokens, 0)]), bias_of(engine, "query_key_value")

        def layer() -> object:
            normed, mixed = backend.add_norm(hidden, branch, norms[0], eps)
            queries = rotate_and_write(engine, project(normed, query_key_value, bias), plan)
            normed, mixed = backend.add_norm(mixed, project(queries.flatten(1), attention_out), norms[1], eps)
            return project(backend.silu_mul(project(normed, gate_up)), down)

        return layer

    parts = [
        operator
        for operator in (
            *product_operators(config, item, [tokens], []),
            *pointwise_operators(config, item, [tokens]),
        )
        for _ in range(PARTS[operator.name])
    ]
    return Operator(
        WHOLE,
        "token_parallel",
        {"tokens": tokens},
        sum(part.bytes_moved for part in parts),
        sum(part.flops for part in parts),
        sum(part.footprint_bytes for part in parts if part.family == PRODUCT),
        make,
        kv_tokens=tokens + page_slack(1),
    )
