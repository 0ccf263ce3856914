"""Where the table has nodes: log-spaced knots on four axes, a dense ladder over n + c."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..tables.batch import AXES, Scene
from ..tables.domain import Domain
from ..tables.grid import Axes, Ladder, Points, scene_of
from .cross_validation import MOST_GRID_VALUES

# Ratio of neighbouring knots. Linear reading of a curve with these ratios costs 0.1-0.2% at the P99 on
# attention-shaped costs; twice as many knots halve that and leave each with half the data.
AXIS_RATIO = {"decodes": 2.0, "context_tokens": 4.0, "prefix_tokens": 4.0, "chunk_tokens": 2.6}
# The ladder also carries the bend from streaming weights to arithmetic, wherever it lies: a knot every 8%.
LADDER_RATIO = 1.08
FIRST_KNOT = {"decodes": 1, "context_tokens": 16, "prefix_tokens": 64, "chunk_tokens": 1}
MOST_CELLS_PER_POINT = 8  # of a grid
WIDE_GAP = 1.5  # a gap this much wider than a regular one gets knots between its ends


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


def axes_for(domain: Domain, points: Points) -> Axes:
    """Axes that end at the domain's limits; n and c start at 1, u at 0, so that scenes meet at nodes.

    points: (points, 4) of the fit rows. Where they lie on a grid, its values are knots, so the table holds the measured
    batches; regular knots only bridge wide gaps.
    """
    gridded = lies_on_grid(points)
    last = {
        "decodes": domain.max_decodes,
        "context_tokens": domain.max_context_tokens,
        "prefix_tokens": domain.max_prefix_tokens,
        "chunk_tokens": domain.max_chunk_tokens,
    }
    knots = {}
    for name, end in last.items():
        usual = log_knots(FIRST_KNOT[name], end, AXIS_RATIO[name]) if end else (0,)
        values = points[:, AXES.index(name)]
        knots[name] = _with_bridges(np.unique(values[values > 0]), usual, AXIS_RATIO[name]) if gridded else usual
    if knots["prefix_tokens"] != (0,):
        knots["prefix_tokens"] = (0, *knots["prefix_tokens"])
    return Axes(**knots)


def lies_on_grid(points: Points) -> bool:
    """Whether, in every scene, few values of each axis make up a grid that the points fill."""
    unique = np.unique(points, axis=0)
    names = scene_of(unique)
    for scene in np.unique(names):
        here = unique[names == scene]
        values = [len(np.unique(here[:, column])) for column in range(here.shape[1])]
        if max(values) > MOST_GRID_VALUES or np.prod(values) > MOST_CELLS_PER_POINT * len(here):
            return False
    return True


def _with_bridges(known: NDArray[np.int64], usual: Sequence[int], ratio: float) -> tuple[int, ...]:
    """`known`, the ends of `usual`, and the knots of `usual` that lie far from all of these."""
    kept = {*known.tolist(), usual[0], usual[-1]}
    fixed = np.asarray(sorted(kept), dtype=np.float64)
    for knot in usual[1:-1]:
        at = int(np.searchsorted(fixed, knot))
        low, high = fixed[at - 1], fixed[at]
        if high > low * ratio * WIDE_GAP and min(knot / low, high / knot) >= ratio**0.5:
            kept.add(knot)
    return tuple(sorted(kept))


def ladder_for(domain: Domain, scene: Scene, step_totals: Sequence[int]) -> Ladder:
    """Knots at every total of the scene that is not 8% past the one before, and on both sides of each step.

    Regular knots next to a step are removed; otherwise the fit spreads the step over both intervals, since hardly any
    points lie between a side and a knot one token away.
    """
    last = {
        Scene.DECODE: domain.max_decodes,
        Scene.PREFILL: min(domain.max_chunk_tokens, domain.max_batch_tokens),
        Scene.MIXED: domain.max_batch_tokens,
    }[scene]
    first = 2 if scene is Scene.MIXED and last > 1 else 1
    sides = {side for step in step_totals for side in (step - 1, step) if first < side < last}
    apart = LADDER_RATIO**0.5
    spaced = {
        knot
        for knot in log_knots(first, last, LADDER_RATIO)
        if knot in (first, last) or not any(knot / apart < side < knot * apart for side in sides)
    }
    return Ladder(tuple(sorted(spaced | sides)))
