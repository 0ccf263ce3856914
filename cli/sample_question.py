"""The question `run` answers from a fresh table: how large a chunk fits beside a middling decode batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..tables import Batch, CostTable, Scene

BUDGET_OVER_DECODES = 2.0  # the iteration may take this many times the decodes' own bound


@dataclass(frozen=True, slots=True)
class Question:
    context_tokens: int
    budget_ms: float
    text: str
    data: dict[str, Any]


def sample_question(table: CostTable) -> Question:
    """Budget: twice the bound of the decodes alone, so that it means something on any device."""
    axes = table.arrays.axes
    n, k = axes.decodes[len(axes.decodes) // 2], axes.context_tokens[len(axes.context_tokens) // 2]
    if Scene.DECODE not in table.arrays.ladders or Scene.MIXED not in table.arrays.ladders:
        n = 0
    alone = table.bound_ms(Batch.of(n, k)) if n else table.bound_ms(Batch.of(chunk_tokens=axes.chunk_tokens[-1] // 2))
    budget = float(f"{BUDGET_OVER_DECODES * alone:.3g}")
    chunk = table.largest_chunk(decodes=n, context_tokens=k, prefix_tokens=0, budget_ms=budget)
    data: dict[str, Any] = {"decodes": n, "context_tokens": k, "budget_ms": budget, "largest_chunk": chunk}
    text = f"[bold]{n} decodes at context {k} within {budget:g} ms: the largest chunk is {chunk} tokens[/]"
    if n or chunk:
        batch = Batch.of(n, k if n else 0, chunk)
        data |= {"expected_ms": table.expected_ms(batch), "bound_ms": table.bound_ms(batch)}
        text += f" (expected {data['expected_ms']:.3f} ms, bound {data['bound_ms']:.3f} ms)"
    return Question(k, budget, text, data)
