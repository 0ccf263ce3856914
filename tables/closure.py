"""Monotone closure: what makes a table keep the order of work, in every scene and across the seams.

Order (design: a batch gains work by a further decode, a longer context, a chunk token, prefix): the
bound never falls. Inside a scene it is enough that both parts are non-decreasing along every axis,
since `lookup` folds monotonically. Across scenes two seams remain:
mixed at one chunk token >= decode, and mixed at one decode >= prefill.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from .batch import Scene
from .grid import Axes, Ladder, Points, Surface, Ticks, batch_totals, locate_all, read_base

# Between the knots of k and u two folds round up by less than a tick each on one side of a seam, and the
# check at a knot itself rounds by one on the other: with this much slack at the knots every integer
# between them is in order as well.
SEAM_SLACK = 3


@dataclass(frozen=True, slots=True)
class Seam:
    """Integer points where two scenes meet and by how many ticks the upper one falls short (> 0: too low)."""

    lower: Scene
    points_below: Points
    points_above: Points
    shortage: Ticks


def running_max(values: Ticks) -> Ticks:
    """Smallest array that is >= values and non-decreasing along every axis."""
    for axis in range(values.ndim):
        values = np.maximum.accumulate(values, axis=axis)
    return values


def monotone_majorant(
    axes: Axes,
    ladders: Mapping[Scene, Ladder],
    expected: Mapping[Scene, Surface],
    bound: Mapping[Scene, Surface],
) -> dict[Scene, Surface]:
    """Bounds that keep the order: never below `bound` as given, never below `expected`.

    Running maximum along every axis of each part, then the seams, then the running maximum again.
    """
    closed = {
        scene: Surface(
            running_max(np.maximum(surface.ladder, expected[scene].ladder)),
            running_max(np.maximum(surface.base, expected[scene].base)),
        )
        for scene, surface in bound.items()
    }
    for seam in seams(axes, ladders, closed):
        mixed = closed[Scene.MIXED]
        closed[Scene.MIXED] = replace(mixed, base=running_max(mixed.base + _lift(axes, seam)))
    return closed


def seams(axes: Axes, ladders: Mapping[Scene, Ladder], surfaces: Mapping[Scene, Surface]) -> list[Seam]:
    """Both seams at every integer of the coordinate that the ladder reads, at the knots of the other."""
    if Scene.MIXED not in surfaces:
        return []
    found = []
    if Scene.DECODE in surfaces:
        n = np.arange(1, axes.decodes[-1] + 1)
        grid = np.stack(np.meshgrid(n, axes.context_tokens, indexing="ij"), -1).reshape(-1, 2)
        below = np.column_stack([grid, np.zeros_like(grid)])
        found.append(_seam(axes, ladders, surfaces, Scene.DECODE, below, below + np.array([0, 0, 1, 0])))
    if Scene.PREFILL in surfaces:
        c = np.arange(1, axes.chunk_tokens[-1] + 1)
        grid = np.stack(np.meshgrid(c, axes.prefix_tokens, indexing="ij"), -1).reshape(-1, 2)
        below = np.column_stack([np.zeros_like(grid), grid])
        found.append(
            _seam(axes, ladders, surfaces, Scene.PREFILL, below, below + np.array([1, axes.context_tokens[0], 0, 0]))
        )
    return found


def read_surface(axes: Axes, scene: Scene, ladder: Ladder, surface: Surface, points: Points) -> Ticks:
    """ladder(n + c) + base(n, k, c, u) in ticks for each point."""
    totals = batch_totals(points)
    dense = ladder.dense(surface.ladder, int(totals.max(initial=0)))
    return dense[totals] + read_base(surface.base, axes, scene, points)


def _seam(
    axes: Axes,
    ladders: Mapping[Scene, Ladder],
    surfaces: Mapping[Scene, Surface],
    lower: Scene,
    below: Points,
    above: Points,
) -> Seam:
    # n + c may pass the token budget in a corner; the ladder clamps there and no query reaches it.
    less = read_surface(axes, lower, ladders[lower], surfaces[lower], below)
    more = read_surface(axes, Scene.MIXED, ladders[Scene.MIXED], surfaces[Scene.MIXED], above)
    return Seam(lower, below, above, less + SEAM_SLACK - more)


def _lift(axes: Axes, seam: Seam) -> Ticks:
    """What to add to the mixed base so that no point of the seam is short: each point lifts its corners."""
    lift = np.zeros(axes.shape(Scene.MIXED), dtype=np.int64)
    short = seam.shortage > 0
    points, amount = seam.points_above[short], seam.shortage[short]
    # The corner of the mixed grid that the seam runs along, and its two axes there.
    if seam.lower is Scene.DECODE:
        view, walked, column, fixed, other = lift[:, :, 0, 0], axes.decodes, 0, axes.context_tokens, points[:, 1]
    else:
        view, walked, column, fixed, other = lift[0, 0].T, axes.chunk_tokens, 2, axes.prefix_tokens, points[:, 3]
    index, weight = locate_all(walked, points[:, column])
    across = np.searchsorted(fixed, other)
    for step in (0, 1):
        used = (weight > 0) | (step == 0)
        np.maximum.at(view, (index[used] + step, across[used]), amount[used])
    return lift
