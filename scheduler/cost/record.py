"""What an iteration costs, as compiled code reads it: the record of a table's surface, or of a formula."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from ...files.errors import UsageError
from ...tables.cost_table import CostTable
from ...tables.lookup import WEIGHT_ONE, FlatTable, Head
from ..compiled import COMPILES

NO_LIMIT = 1 << 40  # tokens or ticks that nothing reaches
# A table, or a formula: no knots, and its coefficients as nodes. Both have limits and a factor in the head.
Cost = FlatTable
HEAD = np.dtype((np.record, [(name, "i8") for name in Head._fields]))


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
