"""The cost of iterations as compiled code reads it: the record of a table's surface or of a formula, and factors.

The true time of iteration i is the true cost times a factor, an integer of 2^-20: entry i modulo the count of
factors. The count is a prime, so the period is no multiple of a workload's. Factors are the same in every process.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...files.errors import UsageError
from ...tables.cost_table import CostTable
from ...tables.lookup import WEIGHT_ONE, FlatTable, Head
from ..compiled import COMPILES

NO_LIMIT = 1 << 40  # tokens or ticks that nothing reaches
# A table, or a formula: no knots, and its coefficients as nodes. Both have limits and a factor in the head.
Cost = FlatTable
HEAD = np.dtype((np.record, [(name, "i8") for name in Head._fields]))

FACTOR_BITS = 20
FACTOR_ONE = 1 << FACTOR_BITS
COUNT = 65_537

Factors = NDArray[np.int64]
EXACT: Factors = np.array([FACTOR_ONE], np.int64)


def cost_of(nodes: Any, head: Head) -> Cost:
    """Arrays where numba compiles; else as they are, since Python is faster on lists and tuples."""
    if not COMPILES:
        return Cost(nodes, (head,))
    arrays: Any = np.array(nodes, np.int64), np.array([tuple(head)], HEAD)
    return Cost(*arrays)


def from_table(table: CostTable, surface: Literal["expected", "bound"] = "bound") -> Cost:
    """The table's own record. The factors of unequal contexts and of several chunks belong to the bound."""
    flat = table.bound if surface == "bound" else table.expected
    return cost_of(flat.nodes, flat.head[0])


def head_of(cost: Cost) -> Head:
    """The head in Python's whole numbers."""
    return Head(*map(int, cost.head[0]))


def with_factor(cost: Cost, factor: int) -> Cost:
    """The same cost with another factor on every answer, in 1/4096."""
    return cost._replace(head=cost_of((), head_of(cost)._replace(factor=factor)).head)


def scaled(cost: Cost, factor: float) -> Cost:
    """Every answer times `factor`, rounded up to 1/4096: a table that is off by so much, or a margin.

    Raises UsageError for a factor that is not above 0.
    """
    if not 0 < factor < WEIGHT_ONE:
        raise UsageError(f"scaled: factor {factor}; expected a number above 0 and under {WEIGHT_ONE}")
    # 0.9 times 4096 is no whole number; the smallest excess of a product such as 1.1 * 10 must not add one.
    return with_factor(cost, math.ceil(head_of(cost).factor * factor - 1e-9))


def noise_factors(seed: int, sigma: float) -> Factors:
    """Log-normal with median 1 and spread `sigma` of the logarithm (0.03 for noise of 3%). Raises UsageError."""
    if not 0 <= sigma <= 1:
        raise UsageError(f"noise_factors: sigma {sigma}; expected 0 to 1")
    return _integers(np.exp(sigma * np.random.default_rng(seed).standard_normal(COUNT)))


def residual_factors(seed: int, ratios: ArrayLike, in_a_row: int = 1) -> Factors:
    """Draws from recorded ratios of measured to expected time, shape (m,), `in_a_row` at a time as they were recorded.

    More than one keeps what neighbours in time have in common: the circular block bootstrap (Politis & Romano 1992).
    Raises UsageError.
    """
    recorded = np.asarray(ratios, np.float64)
    if recorded.ndim != 1 or not len(recorded) or not ((recorded > 0) & (recorded < 1e4)).all():
        raise UsageError("residual_factors: expected a list of ratios T / E above 0 and under 10,000")
    if in_a_row < 1:
        raise UsageError(f"residual_factors: in_a_row is {in_a_row}; expected at least 1")
    first = np.random.default_rng(seed).integers(len(recorded), size=-(-COUNT // in_a_row))
    places = (first[:, None] + np.arange(in_a_row)).ravel()[:COUNT]
    return _integers(recorded[places % len(recorded)])


def _integers(factors: NDArray[np.float64]) -> Factors:
    return np.maximum(np.rint(factors * FACTOR_ONE), 1).astype(np.int64)
