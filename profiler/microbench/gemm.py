"""Matrix products of the model's shapes over token counts.

Convention: FLOPs = 2 x tokens x inputs x outputs. Bytes = the matrix once, the rows read and the rows written.
lm_head's rows are sequences, not tokens.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...engine.config import ModelConfig
from .bench import Bench, Operator
from .seam import bias_of, project
from .timing import Call

FAMILY = "gemm"


def shapes(config: ModelConfig) -> dict[str, tuple[int, int]]:
    """name -> (outputs, inputs), of one layer, and lm_head of the model."""
    return {
        "query_key_value": (config.query_size + 2 * config.kv_size, config.hidden_size),
        "attention_out": (config.hidden_size, config.query_size),
        "gate_up": (2 * config.intermediate_size, config.hidden_size),
        "down": (config.hidden_size, config.intermediate_size),
        "lm_head": (config.vocab_size, config.hidden_size),
    }


def operators(config: ModelConfig, item: int, tokens: Iterable[int], sequences: Iterable[int]) -> list[Operator]:
    """item: bytes of a value."""
    counts = {"lm_head": list(sequences)}
    every = list(tokens)
    return [_operator(config, item, name, rows) for name in shapes(config) for rows in counts.get(name, every)]


def _operator(config: ModelConfig, item: int, name: str, tokens: int) -> Operator:
    outputs, inputs = shapes(config)[name]

    def make(bench: Bench) -> Call:
        weight, rows = bench.take(outputs, inputs), bench.take(tokens, inputs)
        bias = bias_of(bench.engine, name)
        return lambda: project(rows, weight, bias)

    values = outputs * inputs + tokens * (inputs + outputs)
    return Operator(
        FAMILY, name, {"tokens": tokens}, item * values, 2 * tokens * inputs * outputs, item * outputs * inputs, make
    )
