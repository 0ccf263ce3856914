"""Where the table has nodes: log-spaced knots on four axes, a dense ladder over n + c."""

from __future__ import annotations

from collections.abc import Sequence

from ..tables.batch import Scene
from ..tables.domain import Domain
from ..tables.grid import Axes, Ladder

# Ratio of neighbouring knots. Linear reading of a curve with these ratios costs 0.1-0.2% at the P99 on
# attention-shaped costs; twice as many knots halve that and leave each with half the data.
AXIS_RATIO = {"decodes": 2.0, "context_tokens": 4.0, "prefix_tokens": 4.0, "chunk_tokens": 2.6}
# The ladder also carries the bend from streaming weights to arithmetic, wherever it lies: a knot every 8%.
LADDER_RATIO = 1.08
FIRST_CONTEXT = 16
FIRST_PREFIX = 64


def log_knots(first: int, last: int, ratio: float) -> tuple[int, ...]:
    """Integers from `first` to `last`, each at most about `ratio` times the one before."""
    if first >= last:
        return (last,)
    knots, x = [first], float(first)
    while x * ratio < last / ratio**0.5:
        x *= ratio
        if knots[-1] < round(x) < last:
            knots.append(round(x))
    return (*knots, last)


def axes_for(domain: Domain) -> Axes:
    """Axes that end at the domain's limits; n and c start at 1, u at 0, so that scenes meet at nodes."""
    prefix = log_knots(FIRST_PREFIX, domain.max_prefix_tokens, AXIS_RATIO["prefix_tokens"])
    return Axes(
        decodes=log_knots(1, domain.max_decodes, AXIS_RATIO["decodes"]),
        context_tokens=log_knots(FIRST_CONTEXT, domain.max_context_tokens, AXIS_RATIO["context_tokens"]),
        prefix_tokens=(0, *prefix) if domain.max_prefix_tokens else (0,),
        chunk_tokens=log_knots(1, domain.max_chunk_tokens, AXIS_RATIO["chunk_tokens"]),
    )


def ladder_for(domain: Domain, scene: Scene, step_totals: Sequence[int]) -> Ladder:
    """Knots at every total of the scene that is not 8% past the one before, and on both sides of each step."""
    last = {
        Scene.DECODE: domain.max_decodes,
        Scene.PREFILL: min(domain.max_chunk_tokens, domain.max_batch_tokens),
        Scene.MIXED: domain.max_batch_tokens,
    }[scene]
    first = 2 if scene is Scene.MIXED and last > 1 else 1
    sides = {side for step in step_totals for side in (step - 1, step) if first < side < last}
    return Ladder(tuple(sorted({*log_knots(first, last, LADDER_RATIO), *sides})))
