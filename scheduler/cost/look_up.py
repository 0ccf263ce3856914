"""The two questions a scheduler asks of a cost, table or formula: a batch's time, and the largest chunk in time.

A batch is its totals: n decodes of mean context k (rounded up) and longest context `longest`, c prompt tokens
in `chunks` chunks after prefixes of u tokens together. The answers are those of `CostTable`, in ticks.
"""

from __future__ import annotations

from typing import Any

from ...tables.fixed_point import raised
from ...tables.lookup import WEIGHT_ONE
from ..compiled import compiled
from .flat_table import largest_by_table, table_ticks
from .formula import formula_ticks, largest_by_formula
from .record import FORMULA, OUTSIDE, Cost


@compiled
def _inside(header: Any, n: int, k: int, c: int, u: int) -> bool:
    return bool(
        n <= header["max_decodes"]
        and k <= header["max_context_tokens"]
        and c <= header["max_chunk_tokens"]
        and u <= header["max_prefix_tokens"]
        and n + c <= header["max_batch_tokens"]
        and n * k + c + u <= header["kv_tokens"]
    )


@compiled
def _ticks(cost: Cost, n: int, k: int, c: int, u: int) -> int:
    header = cost.header[0]
    if header["kind"] == FORMULA:
        return formula_ticks(header, n, k, c, u)
    return table_ticks(header, cost.nodes, n, k, c, u)


@compiled
def bound_ticks(cost: Cost, n: int, k: int, longest: int, c: int, u: int, chunks: int) -> int:
    """Time of one iteration as `CostTable.bound_ms` gives it; OUTSIDE where the table refuses.

    The context length is a limit of single requests: the caller keeps it for several chunks.
    """
    header = cost.header[0]
    if not n and not c:
        return 0
    if not _inside(header, n, k, c, u) or longest > header["context_length"]:
        return OUTSIDE
    if chunks == 1 and u + c > header["context_length"]:
        return OUTSIDE
    ticks = _ticks(cost, n, k, c, u)
    if ticks == OUTSIDE:
        return OUTSIDE
    if longest > k and header["unequal"] > WEIGHT_ONE:
        ticks = raised(ticks, header["unequal"])
        if _inside(header, n, longest, c, u):
            ticks = min(ticks, _ticks(cost, n, longest, c, u))
    if chunks > 1:
        ticks = raised(ticks, header["several"])
    return raised(ticks, header["factor"])


@compiled
def _largest(cost: Cost, n: int, k: int, u: int, limit: int, max_chunk: int, align: int, chunks: int) -> int:
    """`largest_chunk` of equal contexts."""
    header = cost.header[0]
    if not _inside(header, n, k, 0, u) or (chunks == 1 and u > header["context_length"]):
        return OUTSIDE
    top = min(
        max_chunk,
        header["max_chunk_tokens"],
        header["max_batch_tokens"] - n,
        header["kv_tokens"] - n * k - u,
    )
    if chunks == 1:
        top = min(top, header["context_length"] - u)
    if n:
        alone = _ticks(cost, n, k, 0, 0)
        if alone == OUTSIDE:
            return OUTSIDE
        if alone > limit:
            return 0
    if top == 0:
        return 0
    whole = top if top == max_chunk else 0
    if header["kind"] == FORMULA:
        return largest_by_formula(header, n, k, u, limit, top, align, whole)
    return largest_by_table(header, cost.nodes, n, k, u, limit, top, align, whole)


@compiled
def largest_chunk(
    cost: Cost, n: int, k: int, longest: int, u: int, limit: int, max_chunk: int, align: int, chunks: int
) -> int:
    """`CostTable.largest_chunk` with a limit in ticks, for `chunks` chunks together; OUTSIDE where it raises.

    max_chunk is a candidate itself, as are the multiples of align.
    """
    header = cost.header[0]
    if longest > k and longest > header["context_length"]:
        return OUTSIDE
    limit = limit * WEIGHT_ONE // header["factor"]
    if chunks > 1:
        limit = limit * WEIGHT_ONE // header["several"]
    if longest <= k or header["unequal"] == WEIGHT_ONE:
        return _largest(cost, n, k, u, limit, max_chunk, align, chunks)
    tokens = _largest(cost, n, k, u, limit * WEIGHT_ONE // header["unequal"], max_chunk, align, chunks)
    if longest <= header["max_context_tokens"] and n * longest + u <= header["kv_tokens"]:
        tokens = max(tokens, _largest(cost, n, longest, u, limit, max_chunk, align, chunks))
    return tokens
