"""The whole token-parallel part of one layer in its order: everything of it but attention.

Convention: FLOPs and bytes are the sums of its operators': norm, query_key_value, rope_write, attention_out, norm,
gate_up, silu_mul, down. Its curve over token counts is flat while the weights stream and bends where arithmetic
takes longer: the ridge.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...engine.config import ModelConfig
from . import gemm, pointwise
from .bench import Bench, Operator
from .seam import norm, project, project_add, rope_write, silu_mul
from .timing import Call

FAMILY = "token_parallel"
PARTS = {
    "norm": 2,
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
        hidden = bench.take(tokens, config.hidden_size)
        norms = bench.take(config.hidden_size), bench.take(config.hidden_size)
        shapes = gemm.shapes(config)
        query_key_value, attention_out, gate_up, down = (
            bench.take(*shapes[name][:2]) for name in ("query_key_value", "attention_out", "gate_up", "down")
        )
        rotations, slots = bench.rotations(tokens), bench.slots(tokens)
        keys, values = bench.engine.cache.layer(0)

        def layer() -> object:
            projected = project(norm(hidden, norms[0], config), query_key_value)
            queries = rope_write(projected, rotations, keys, values, slots, config)
            mixed = project_add(hidden, queries.reshape(tokens, -1), attention_out)
            return project_add(mixed, silu_mul(project(norm(mixed, norms[1], config), gate_up)), down)

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
