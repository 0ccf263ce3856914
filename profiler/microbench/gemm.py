"""Matrix products of the model's shapes over token counts.

Convention: FLOPs = 2 x tokens x inputs x outputs. Bytes = the matrix once, the rows read and the rows written, and
the residual read where it is added (attention_out, down). lm_head's rows are sequences, not tokens.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...engine.config import ModelConfig
from .bench import Bench, Operator
from .seam import project, project_add
from .timing import Call

FAMILY = "gemm"


def shapes(config: ModelConfig) -> dict[str, tuple[int, int, bool]]:
    """name -> (outputs, inputs, adds the residual), of one layer, and lm_head of the model."""
    return {
        "query_key_value": (config.query_size + 2 * config.kv_size, config.hidden_size, False),
        "attention_out": (config.hidden_size, config.query_size, True),
        "gate_up": (2 * config.intermediate_size, config.hidden_size, False),
        "down": (config.hidden_size, config.intermediate_size, True),
        "lm_head": (config.vocab_size, config.hidden_size, False),
    }


def operators(config: ModelConfig, item: int, tokens: Iterable[int], sequences: Iterable[int]) -> list[Operator]:
    """item: bytes of a value."""
    counts = {"lm_head": list(sequences)}
    every = list(tokens)
    return [_operator(config, item, name, rows) for name in shapes(config) for rows in counts.get(name, every)]


def _operator(config: ModelConfig, item: int, name: str, tokens: int) -> Operator:
    outputs, inputs, adds = shapes(config)[name]

    def make(bench: Bench) -> Call:
        weight, rows = bench.take(outputs, inputs), bench.take(tokens, inputs)
        if not adds:
            return lambda: project(rows, weight)
        residual = bench.take(tokens, outputs)
        return lambda: project_add(residual, rows, weight)

    values = outputs * inputs + tokens * (inputs + outputs * (2 if adds else 1))
    return Operator(
        FAMILY, name, {"tokens": tokens}, item * values, 2 * tokens * inputs * outputs, item * outputs * inputs, make
    )
