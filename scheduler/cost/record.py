"""One cost of either kind as two arrays: a header and the nodes that its offsets point into."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...files.errors import UsageError
from ...tables.lookup import WEIGHT_ONE

OUTSIDE = -1  # answer of a look-up that the table's domain does not hold
FORMULA, TABLE = 0, 1
NO_LIMIT = 1 << 40  # tokens or ticks that nothing reaches

# Coefficients of a formula: UNITS_PER_MS-ths of a ms per request, token or pair of tokens.
COEFFICIENTS = (
    "overhead",
    "floor",
    "batch_token",
    "decodes",
    "decode",
    "decode_context",
    "chunks",
    "chunk_token",
    "chunk_prefix",
    "chunk_pair",
)
LIMITS = (
    "max_decodes",
    "max_context_tokens",
    "max_chunk_tokens",
    "max_prefix_tokens",
    "max_batch_tokens",
    "kv_tokens",
    "context_length",
)
# Where the knots of each axis begin in the nodes and how many there are.
AXES = ("decodes", "context", "prefix", "chunk")
SCENE_PARTS = tuple(f"{scene}_{part}" for scene in ("decode", "prefill", "mixed") for part in ("ladder", "base"))

HEADER = np.dtype(
    [
        ("kind", "i8"),
        ("factor", "i8"),  # of every answer, in 1/4096: a bias, a margin, a calibrator's
        ("unequal", "i8"),  # factors of unequal contexts and of several chunks, in 1/4096
        ("several", "i8"),
        *((name, "i8") for name in LIMITS),
        *((name, "i8") for name in COEFFICIENTS),
        *((f"{axis}_{what}", "i8") for axis in AXES for what in ("start", "knots")),
        *((part, "i8") for part in SCENE_PARTS),  # where it begins; OUTSIDE for a scene that was not measured
    ]
)


class Cost(NamedTuple):
    """header: HEADER (1,). nodes: int64, ticks and knots."""

    header: NDArray[Any]
    nodes: NDArray[np.int64]


def empty_header(kind: int) -> NDArray[Any]:
    """A header without coefficients, nodes or limits, and factors of 1."""
    header = np.zeros(1, HEADER)
    header["kind"] = kind
    for name in ("factor", "unequal", "several"):
        header[name] = WEIGHT_ONE
    for name in LIMITS:
        header[name] = NO_LIMIT
    return header


def scaled(cost: Cost, factor: float) -> Cost:
    """Every answer times `factor`, rounded up to 1/4096: a table that is off by so much, or a margin.

    Raises UsageError for a factor that is not above 0.
    """
    if not 0 < factor < WEIGHT_ONE:
        raise UsageError(f"scaled: factor {factor}; expected a number above 0 and under {WEIGHT_ONE}")
    header = cost.header.copy()
    # 0.9 times 4096 is no whole number; the smallest excess of a product such as 1.1 * 10 must not add one.
    header["factor"] = math.ceil(header["factor"][0] * factor - 1e-9)
    return Cost(header, cost.nodes)
