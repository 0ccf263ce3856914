"""Costs by formula: SLOWeave's simulator, and a curved one that bends at the weight floor and with attention.

T = overhead + max(floor, batch_token (n + c)) + [n > 0] (decodes + decode n + decode_context n k)
  + [c > 0] (chunks + chunk_token c + chunk_prefix u + chunk_pair c (u + c / 2)), in ms,
rounded to the nearest tick. Coefficients are held as integers of 2^-44 ms, sums are exact below 500 s.
Non-decreasing in every argument, since no coefficient is negative.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from ...files.errors import UsageError
from ...tables.lookup import OUTSIDE, TICKS_PER_MS, WEIGHT_ONE, Head
from ..compiled import compiled
from .cost_record import NO_LIMIT, Cost, cost_of

UNIT_BITS = 30  # a tick is 2^30 units
HALF_TICK = 1 << (UNIT_BITS - 1)
# No knots, no scenes, no limits, all measured, factors of 1.
HEAD_OF_FORMULA = Head._make([0] * 7 + [OUTSIDE] * 6 + [NO_LIMIT] * 7 + [OUTSIDE] + [WEIGHT_ONE] * 3)
# Where a coefficient stands among the nodes, in the order of `Formula`.
OVERHEAD, FLOOR, BATCH_TOKEN, DECODES, DECODE, DECODE_CONTEXT, CHUNKS, CHUNK_TOKEN, CHUNK_PREFIX, CHUNK_PAIR = range(10)


@dataclass(frozen=True, slots=True)
class Formula:
    """Coefficients in ms; the module says the formula."""

    overhead: float = 0.0
    floor: float = 0.0
    batch_token: float = 0.0
    decodes: float = 0.0
    decode: float = 0.0
    decode_context: float = 0.0
    chunks: float = 0.0
    chunk_token: float = 0.0
    chunk_prefix: float = 0.0
    chunk_pair: float = 0.0

    def cost(self) -> Cost:
        """For look-ups. Raises UsageError for a coefficient that is negative or no number."""
        coefficients = []
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 <= value < 1e4:
                raise UsageError(f"Formula: {field.name} is {value} ms; expected 0 to 10,000")
            # A pair is counted twice, as c (2 u + c), so that its half stays whole.
            scale = TICKS_PER_MS << UNIT_BITS if field.name != "chunk_pair" else TICKS_PER_MS << (UNIT_BITS - 1)
            coefficients.append(round(value * scale))
        return cost_of(coefficients, HEAD_OF_FORMULA)


# SLOWeave 4.1
SLOWEAVE = Formula(overhead=0.35, decodes=0.90, decode=0.055, chunks=0.40, chunk_token=0.006)
# An 8B model on two cards of 0.85 TB/s and 60 effective TFLOP/s each: 8 GB of weights a card, 16 GFLOP a token,
# 131 kB of KV and 0.52 MFLOP of attention for each token that a token sees. No measurement.
CURVED = Formula(
    overhead=1.5,
    floor=9.5,
    batch_token=0.133,
    decode=0.02,
    decode_context=8e-5,
    chunks=0.5,
    chunk_prefix=8e-5,
    chunk_pair=4.4e-6,
)


@compiled
def formula_ticks(nodes: Any, n: int, k: int, c: int, u: int) -> int:
    """Ticks of a batch; nodes: the coefficients."""
    units = nodes[OVERHEAD] + max(nodes[FLOOR], nodes[BATCH_TOKEN] * (n + c))
    if n:
        units += nodes[DECODES] + n * (nodes[DECODE] + nodes[DECODE_CONTEXT] * k)
    if c:
        units += nodes[CHUNKS] + c * (nodes[CHUNK_TOKEN] + nodes[CHUNK_PAIR] * (2 * u + c)) + nodes[CHUNK_PREFIX] * u
    return int((units + HALF_TICK) >> UNIT_BITS)


@compiled
def largest_by_formula(nodes: Any, n: int, k: int, u: int, limit: int, max_chunk: int, align: int) -> int:
    """Largest chunk within `limit`: max_chunk or a multiple of align; 0 where the decodes alone are above it."""
    if not max_chunk or (n and formula_ticks(nodes, n, k, 0, 0) > limit):
        return 0
    if formula_ticks(nodes, n, k, max_chunk, u) <= limit:
        return max_chunk
    low = 0
    high = max_chunk // align
    while low < high:
        middle = (low + high + 1) >> 1
        if formula_ticks(nodes, n, k, middle * align, u) <= limit:
            low = middle
        else:
            high = middle - 1
    return low * align
