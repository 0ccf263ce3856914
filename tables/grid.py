"""A scene's surface as arrays: dense ladder and base grid, read for many points at once.

The reading here and the one in lookup.py give the same integers; a test holds them together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .batch import AXES, SCENES, Scene
from .lookup import MAX_TICKS, ROUND_UP, TICKS_PER_MS, WEIGHT_BITS, WEIGHT_ONE

Ticks = NDArray[np.int64]  # times in 2^-14 ms
Points = NDArray[np.int64]  # shape (points, 4), columns n, k, c, u
# Axes of a scene's base grid. The chunk is the innermost axis, since the search walks along it.
SCENE_AXES: dict[Scene, tuple[str, ...]] = {
    Scene.DECODE: AXES[:2],
    Scene.PREFILL: AXES[:1:-1],
    Scene.MIXED: AXES[:2] + AXES[:1:-1],
}


def nearest_ticks(ms: NDArray[np.float64]) -> Ticks:
    """Rounded to the nearest tick: expected times."""
    return np.rint(np.asarray(ms) * TICKS_PER_MS).astype(np.int64)


def ticks_up(ms: NDArray[np.float64]) -> Ticks:
    """Rounded up to a whole tick: bounds, which may only grow."""
    return np.ceil(np.asarray(ms) * TICKS_PER_MS).astype(np.int64)


def to_ms(ticks: Ticks) -> NDArray[np.float64]:
    """Exact: a tick is a power of two and every value is below 2^40 ticks."""
    return np.asarray(ticks, dtype=np.float64) / TICKS_PER_MS


def weight_of(factor: float | None) -> int:
    """A factor as a whole number of 1/4096, rounded up; 1 where it was not measured."""
    return WEIGHT_ONE if factor is None else math.ceil(factor * WEIGHT_ONE)


def budget_ticks(budget_ms: float) -> int:
    """Largest whole number of ticks within a budget. U <= budget in ms if and only if in ticks.

    Raises ValueError for NaN.
    """
    return math.floor(max(min(budget_ms * TICKS_PER_MS, 2.0 * MAX_TICKS), -1.0))


@dataclass(frozen=True, slots=True)
class Axes:
    """Knots of the four coordinates, shared by the scenes so that seams can be checked exactly."""

    decodes: tuple[int, ...]
    context_tokens: tuple[int, ...]
    chunk_tokens: tuple[int, ...]
    prefix_tokens: tuple[int, ...]

    def knots(self, name: str) -> tuple[int, ...]:
        knots: tuple[int, ...] = getattr(self, name)
        return knots

    def shape(self, scene: Scene) -> tuple[int, ...]:
        """Shape of the scene's base grid, axes in the order of SCENE_AXES."""
        return tuple(len(self.knots(name)) for name in SCENE_AXES[scene])


@dataclass(frozen=True, slots=True)
class Surface:
    """One non-decreasing function of a scene: ladder(n + c) + base(n, k, c, u), in ticks.

    ladder: one value per ladder knot. base: shape Axes.shape(scene).
    """

    ladder: Ticks
    base: Ticks


@dataclass(frozen=True, slots=True)
class Ladder:
    """Where the ladder has knots and how it is read between them.

    `linear` between two knots (a step is a pair of neighbouring knots) or `up`: the value of the next
    knot, for engines that pad n + c to a bucket.
    """

    batch_tokens: tuple[int, ...]
    between: str = "linear"

    def dense(self, values: Ticks, top: int) -> Ticks:
        """Value at every total 0..top: a look-up is then an index."""
        totals = np.arange(top + 1)
        index, weight = locate_all(self.batch_tokens, totals)
        if self.between == "up":
            weight = np.where(weight > 0, WEIGHT_ONE, 0)
        low = values[index]
        high = values[np.minimum(index + 1, len(values) - 1)]
        return _lerp(low, high, weight)


def locate_all(knots: Sequence[int], x: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`lookup.locate` for an array."""
    axis = np.asarray(knots, dtype=np.int64)
    i = np.searchsorted(axis, x, side="right") - 1
    inside = (i >= 0) & (i + 1 < len(axis))
    i = np.clip(i, 0, len(axis) - 1)
    low, high = axis[i], axis[np.minimum(i + 1, len(axis) - 1)]
    span = np.where(inside, high - low, 1)
    weight = np.where(inside, -((low - x) * WEIGHT_ONE // span), 0)
    return i, weight


def _lerp(low: Ticks, high: Ticks, weight: NDArray[np.int64]) -> Ticks:
    return low + (((high - low) * weight + ROUND_UP) >> WEIGHT_BITS)


def corners(
    axes: Axes, scene: Scene, points: Points
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """Per axis of the scene: index of the lower knot, of the upper one, weight of the upper in 1/4096."""
    lower, upper, weights = [], [], []
    for name in SCENE_AXES[scene]:
        index, weight = locate_all(axes.knots(name), points[:, AXES.index(name)])
        lower.append(index)
        upper.append(np.minimum(index + 1, len(axes.knots(name)) - 1))
        weights.append(weight)
    return lower, upper, weights


def read_base(base: Ticks, axes: Axes, scene: Scene, points: Points) -> Ticks:
    """Base value in ticks for each point (shape (points,)), folded in the order of lookup.py."""
    lower, upper, weights = corners(axes, scene, points)
    names = SCENE_AXES[scene]
    # The order of `lookup.fold`: prefix, context, decodes; then chunk.
    order = sorted(range(len(names)), key=lambda axis: (names[axis] == "chunk_tokens", -axis))
    # values[bits]: the corner whose axis a takes its upper knot where bit a is set
    values: dict[tuple[int, ...], Ticks] = {}
    for bits in np.ndindex(*(2,) * len(names)):
        values[bits] = base[tuple(upper[a] if bit else lower[a] for a, bit in enumerate(bits))]
    for axis in order:
        for bits in [b for b in values if b[axis] == 0]:
            raised = (*bits[:axis], 1, *bits[axis + 1 :])
            values[bits] = _lerp(values[bits], values.pop(raised), weights[axis])
    (folded,) = values.values()
    return folded


def node_points(axes: Axes, scene: Scene) -> Points:
    """Coordinates (n, k, c, u) of every base node, in C order; a coordinate the scene lacks is 0."""
    names = SCENE_AXES[scene]
    grids = np.meshgrid(*(axes.knots(name) for name in names), indexing="ij")
    points = np.zeros((grids[0].size, 4), dtype=np.int64)
    for name, grid in zip(names, grids, strict=True):
        points[:, AXES.index(name)] = grid.ravel()
    return points


def batch_totals(points: Points) -> NDArray[np.int64]:
    """n + c of each point."""
    return points[:, 0] + points[:, 2]


def scene_codes(points: Points) -> NDArray[np.int8]:
    """Place in SCENES of each point's scene, shape (points,); of one point `Point.scene` says it."""
    return np.where(points[:, 2] == 0, 0, np.where(points[:, 0] == 0, 1, 2)).astype(np.int8)


def scene_of(points: Points) -> NDArray[np.str_]:
    """Scene name of each point."""
    return np.asarray([scene.value for scene in SCENES])[scene_codes(points)]
