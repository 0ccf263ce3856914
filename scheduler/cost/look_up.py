"""The questions that a scheduler asks of a cost, table or formula: a batch's time, the largest chunk in time.

A batch is its totals, as in `tables.lookup`; answers are ticks and tokens. For a table they are those of `CostTable`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...files.errors import OutOfDomainError
from ...tables import largest_chunk as exact_search
from ...tables import lookup
from ...tables.grid import to_ms
from ...tables.lookup import OUTSIDE, WEIGHT_ONE
from ..compiled import compiled
from .cost_record import Cost
from .formula import formula_ticks, largest_by_formula


@compiled
def bound_ticks(cost: Cost, n: int, k: int, longest: int, c: int, u: int, chunks: int) -> int:
    """`tables.lookup.bound_ticks`; a formula reads equal contexts and one chunk."""
    # Fields of records are narrower than products, which matters where nothing is compiled.
    n, k, longest, c, u = int(n), int(k), int(longest), int(c), int(u)
    if cost.head[0].knots_end:
        return lookup.bound_ticks(cost, n, k, longest, c, u, chunks)
    if not n and not c:
        return 0
    return int(lookup.raised(formula_ticks(cost.nodes, n, k, c, u), cost.head[0].factor))


@compiled
def largest_chunk(
    cost: Cost, n: int, k: int, longest: int, u: int, limit: int, max_chunk: int, align: int, chunks: int
) -> int:
    """`tables.largest_chunk`, with the same candidates of a formula."""
    n, k, longest, u, limit, max_chunk = int(n), int(k), int(longest), int(u), int(limit), int(max_chunk)
    if cost.head[0].knots_end:
        return exact_search.largest_chunk(cost, n, k, longest, u, limit, max_chunk, align, chunks)
    return largest_by_formula(cost.nodes, n, k, u, limit * WEIGHT_ONE // cost.head[0].factor, max_chunk, align)


@compiled
def _add_ticks_alone(cost: Cost, prompts: Any, cached: Any, chunk_tokens: int, ticks: Any) -> int:
    """Adds each prompt's time to `ticks`; the first row outside of the cost, or OUTSIDE where there is none."""
    for i in range(len(prompts)):
        done = cached[i]
        while done < prompts[i]:
            chunk = min(chunk_tokens, prompts[i] - done)
            time = bound_ticks(cost, 0, 0, 0, chunk, done, 1)
            if time == OUTSIDE:
                return i
            ticks[i] += time
            done += chunk
    return OUTSIDE


def alone_ms(cost: Cost, requests: NDArray[Any], chunk_tokens: int) -> NDArray[np.float64]:
    """Time to the first token of each request on an idle device, (m,) ms: what a `slowdown` target is a multiple of.

    requests: WORKLOAD (m,). The cached prefix apart, a prompt is computed in chunks of up to `chunk_tokens`; a formula
    takes it whole where chunk_tokens allows. Raises OutOfDomainError naming the row.
    """
    ticks = np.zeros(len(requests), np.int64)
    prompts = requests["prompt_tokens"].astype(np.int64)
    cached = requests["cached_tokens"].astype(np.int64)
    row = int(_add_ticks_alone(cost, prompts, cached, chunk_tokens, ticks))
    if row != OUTSIDE:
        raise OutOfDomainError(
            f"row {row} (from 0): a prompt of {prompts[row]:,} tokens, {cached[row]:,} of them cached, lies "
            "outside of the true cost, which `slowdown` needs for its time alone: cut prompts (max_prompt=N), say "
            "ttft=1s instead, or take a table of a larger domain"
        )
    return to_ms(ticks)
