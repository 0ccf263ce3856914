"""The whole token-parallel part of one layer in its order: everything of it but attention.

Convention: FLOPs and bytes are the sums of its operators': add_norm, query_key_value, rope_write, attention_out,
add_norm, gate_up, silu_mul, down. Its curve over token counts is flat while the weights stream and bends where
arithmetic takes longer: the ridge.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...engine.config import ModelConfig
from . import gemm, pointwise
from .bench import Bench, Operator
from .seam import backend_of, bias_of, planned, project, rotate_and_write
from .timing import Call

FAMILY = "token_parallel"
PARTS = {
    "add_norm": 2,
    "query_key_value": 1,
    "rope_write": 1,
    "attention_out": 1,
    "gate_up": 1,
    "silu_mul": 1,
    "down": 1,
}


def operators(config: ModelConfig, item: int, tokens: Iterable[int]) -> list[Operator]:
    return [_operator(config, item, t) for t in tokens]


def _operator(config: ModelConfig, item: int, tokens: int) -> Operator:
    def make(bench: Bench) -> Call:
        engine, backend, eps = bench.engine, backend_of(bench.engine), config.rms_norm_eps
        hidden, branch = bench.take(tokens, config.hidden_size), bench.take(tokens, config.hidden_size)
        norms = bench.take(config.hidden_size), bench.take(config.hidden_size)
        query_key_value, attention_out, gate_up, down = (
            bench.take(*gemm.shapes(config)[name]) for name in ("query_key_value", "attention_out", "gate_up", "down")
        )
        plan, bias = planned(engine, [], [bench.chunk(tokens, 0)]), bias_of(engine, "query_key_value")

        def layer() -> object:
            normed, mixed = backend.add_norm(hidden, branch, norms[0], eps)
            queries = rotate_and_write(engine, project(normed, query_key_value, bias), plan)
            normed, mixed = backend.add_norm(mixed, project(queries.flatten(1), attention_out), norms[1], eps)
            return project(backend.silu_mul(project(normed, gate_up)), down)

        return layer

    parts = [
        operator
        for operator in [*gemm.operators(config, item, [tokens], []), *pointwise.operators(config, item, [tokens])]
        for _ in range(PARTS[operator.name])
    ]
    return Operator(
        FAMILY,
        "token_parallel",
        {"tokens": tokens},
        sum(part.bytes_moved for part in parts),
        sum(part.flops for part in parts),
        sum(part.footprint_bytes for part in parts if part.family == gemm.FAMILY),
        make,
        kv_tokens=tokens + 15,
    )
