"""The sampling design of points (n, k, c, u); the coverage of a table is meant under this distribution.

Per scene a scrambled Sobol sequence fills the axes evenly in the logarithm. On top of that 8% of the
draws have one coordinate at its axis maximum (a table is used up to its edge, where a plain scatter has
almost no points) and 10% have n + c moved to either side of a step of the engine's padding.

The points of one draw are distinct: where a scene holds few small values (one chunk token without prefix
is one point), these become rarer than their share the more points are drawn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..files.errors import UsageError
from ..tables.batch import SCENES, Scene
from ..tables.domain import Domain
from ..tables.grid import Points

Point = tuple[int, int, int, int]

BOUNDARY_SHARE = 0.08
STEP_SHARE = 0.10
NO_PREFIX_SHARE = 0.20
# Random states looked at for each that is wanted at a step: at a small total most have too many decodes.
STATE_TRIES = 8
# From here on a scene is taken to hold fewer distinct points than were asked for.
MAX_DRAWS = 1 << 17

N, K, C, U = range(4)
AXES = {Scene.DECODE: (N, K), Scene.PREFILL: (C, U), Scene.MIXED: (N, K, C, U)}


@dataclass(frozen=True, slots=True)
class Draw:
    """points: (m, 4) of n, k, c, u. `rejected` of `drawn` candidates lay outside the domain."""

    points: Points
    drawn: int
    rejected: int


def axis_range(domain: Domain, axis: int) -> tuple[int, int]:
    """Smallest and largest value drawn on an axis (u: the smallest that is not 0).

    Contexts and prefixes start at 16 tokens, one KV page: below it nothing changes but the share of
    draws that would be spent there.
    """
    largest = (
        domain.max_decodes,
        domain.max_context_tokens,
        domain.max_chunk_tokens,
        domain.max_prefix_tokens,
    )[axis]
    smallest = 1 if axis in (N, C) else min(16, max(1, largest // 4))
    return min(smallest, largest), largest


def inside(domain: Domain, points: Points) -> NDArray[np.bool_]:
    """Which rows of `points` (m, 4) the domain holds: `Domain.refusal` for many points at once.

    A chunk of a point stands for all chunks of a batch, so u + c may pass the context length.
    """
    n, k, c, u = points.T
    return np.asarray(
        (n <= domain.max_decodes)
        & (k <= domain.max_context_tokens)
        & (c <= domain.max_chunk_tokens)
        & (u <= domain.max_prefix_tokens)
        & (n + c <= domain.max_batch_tokens)
        & (n * k + c + u <= domain.kv_tokens)
    )


def scene_of(point: Point) -> Scene:
    """The scene of (n, k, c, u)."""
    if point[C] == 0:
        return Scene.DECODE
    return Scene.MIXED if point[N] else Scene.PREFILL


def step_sides(domain: Domain, scene: Scene, step_totals: Sequence[int]) -> list[int]:
    """Totals n + c just before and just past each step that the scene can reach."""
    most = {
        Scene.DECODE: domain.max_decodes,
        Scene.PREFILL: domain.max_chunk_tokens,
        Scene.MIXED: domain.max_batch_tokens,
    }[scene]
    least = 2 if scene is Scene.MIXED else 1
    return sorted({side for total in step_totals for side in (total - 1, total) if least <= side <= most})


def to_total(domain: Domain, scene: Scene, points: Points, totals: NDArray[np.int64]) -> Points:
    """`points` with c (n for decodes) set so that n + c equals `totals`; a row where that is not possible
    at its n stays as it is."""
    moved = points.copy()
    if scene is Scene.DECODE:
        moved[:, N] = totals
        return moved
    chunk = totals - points[:, N]
    fits = (chunk >= 1) & (chunk <= domain.max_chunk_tokens)
    moved[fits, C] = chunk[fits]
    return moved


def candidates(domain: Domain, scene: Scene, step_totals: Sequence[int], unit: NDArray[np.float64]) -> Points:
    """Points of the law from uniform numbers (m, axes + 2); some may lie outside the domain.

    The last two columns choose the kind of draw (boundary, step, plain) and which axis or step it is.
    """
    axes = AXES[scene]
    points: Points = np.zeros((len(unit), 4), dtype=np.int64)
    for column, axis in enumerate(axes):
        low, high = axis_range(domain, axis)
        share = unit[:, column]
        none = np.zeros(len(unit), dtype=np.bool_)
        if axis == U:
            none = (share < NO_PREFIX_SHARE) | (high == 0)
            share = (share - NO_PREFIX_SHARE) / (1 - NO_PREFIX_SHARE)
            low, high = max(low, 1), max(high, 1)
        values = np.rint(low * np.exp(share * np.log(high / low))).astype(np.int64)
        points[:, axis] = np.where(none, 0, np.clip(values, low, high))
    kind, which = unit[:, -2], unit[:, -1]
    boundary = kind < BOUNDARY_SHARE
    chosen = np.floor(which * len(axes)).astype(np.int64)
    for column, axis in enumerate(axes):
        points[boundary & (chosen == column), axis] = axis_range(domain, axis)[1]
    sides = step_sides(domain, scene, step_totals)
    if sides:
        at_step = ~boundary & (kind < BOUNDARY_SHARE + STEP_SHARE)
        side = np.asarray(sides)[np.floor(which * len(sides)).astype(np.int64)]
        points[at_step] = to_total(domain, scene, points[at_step], side[at_step])
    return points


def draw_scene(
    domain: Domain,
    scene: Scene,
    count: int,
    step_totals: Sequence[int],
    seed: np.random.SeedSequence,
    exclude: Collection[Point] = frozenset(),
) -> Draw:
    """`count` distinct points of one scene, none of them in `exclude`.

    Raises UsageError when the domain does not hold that many.
    """
    # Heavy, and not needed by the processes that measure a plan drawn before.
    from scipy.stats import qmc

    sobol = qmc.Sobol(len(AXES[scene]) + 2, scramble=True, seed=np.random.default_rng(seed))
    found: dict[Point, None] = {}
    drawn = rejected = 0
    # Powers of two, doubled: a Sobol sequence is balanced only in such blocks.
    block = max(4, int(np.ceil(np.log2(max(count, 1) * 1.25))))
    while len(found) < count:
        if drawn >= MAX_DRAWS:
            raise UsageError(
                f"sampling law, scene {scene.value}: found {len(found):,} distinct points in {drawn:,} draws "
                f"({rejected:,} of them outside the domain), expected {count:,}; ask for fewer points or "
                "widen the domain"
            )
        points = candidates(domain, scene, step_totals, sobol.random_base2(block))
        held = inside(domain, points)
        drawn += len(points)
        rejected += int(len(points) - held.sum())
        for n, k, c, u in points[held].tolist():
            if (n, k, c, u) not in exclude:
                found[n, k, c, u] = None
        block = int(np.log2(drawn))
    return Draw(np.asarray(list(found)[:count], dtype=np.int64).reshape(-1, 4), drawn, rejected)


def shares(count: int, scenes: Mapping[Scene, float] | None = None) -> dict[Scene, int]:
    """`count` points over the scenes in shares that add up to 1, by default in equal ones.

    What is left over goes to the largest remainders, among equals to the first scenes.
    """
    exact = {scene: count * (1 / len(SCENES) if scenes is None else scenes[scene]) for scene in SCENES}
    whole = {scene: int(share) for scene, share in exact.items()}
    by_remainder = sorted(SCENES, key=lambda scene: round(whole[scene] - exact[scene], 9))
    for scene in by_remainder[: count - sum(whole.values())]:
        whole[scene] += 1
    return whole


def draw(
    domain: Domain,
    count: int,
    step_totals: Sequence[int],
    seed: int | np.random.SeedSequence,
    exclude: Collection[Point] = frozenset(),
    scenes: Mapping[Scene, float] | None = None,
) -> Draw:
    """`count` distinct points of the law, scenes in equal shares or those of `scenes`, in random order.

    seed decides everything; two seeds give independent scrambles. Raises UsageError when the domain
    does not hold that many distinct points.
    """
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    *scene_seeds, shuffle_seed = root.spawn(4)
    parts = [
        draw_scene(domain, scene, share, step_totals, scene_seed, exclude)
        for (scene, share), scene_seed in zip(shares(count, scenes).items(), scene_seeds, strict=True)
    ]
    points = np.concatenate([part.points for part in parts])
    np.random.default_rng(shuffle_seed).shuffle(points)
    return Draw(points, sum(part.drawn for part in parts), sum(part.rejected for part in parts))


def corners(domain: Domain) -> list[Point]:
    """Every combination of axis ends that the domain holds, scene by scene (u from 0)."""
    found: dict[Point, None] = {}
    for scene in SCENES:
        ends = [
            ((0,) if axis not in AXES[scene] else (0 if axis == U else axis_range(domain, axis)[0],))
            + ((axis_range(domain, axis)[1],) if axis in AXES[scene] else ())
            for axis in range(4)
        ]
        grid = np.stack(np.meshgrid(*ends, indexing="ij"), axis=-1).reshape(-1, 4).astype(np.int64)
        found.update(((n, k, c, u), None) for n, k, c, u in grid[inside(domain, grid)].tolist())
    return list(found)


def step_pairs(domain: Domain, step_totals: Sequence[int], states: int, seed: np.random.SeedSequence) -> list[Point]:
    """Of every scene both sides of each step (or the one it can reach) at the same `states` random states, fewer where
    the domain does not hold them."""
    found: dict[Point, None] = {}
    for scene, scene_seed in zip(SCENES, seed.spawn(3), strict=True):
        rng = np.random.default_rng(scene_seed)
        for total in step_totals:
            unit = rng.random((STATE_TRIES * states, len(AXES[scene]) + 2))
            unit[:, -2] = 1.0  # plain draws: neither boundary nor step
            base = candidates(domain, scene, (), unit)
            sides = step_sides(domain, scene, (total,))
            moved = [to_total(domain, scene, base, np.full(len(base), side)) for side in sides]
            held = np.ones(len(base), dtype=np.bool_)
            for side, points in zip(sides, moved, strict=True):
                held &= inside(domain, points) & (points[:, N] + points[:, C] == side)
            for points in moved:
                found.update(((n, k, c, u), None) for n, k, c, u in points[held][:states].tolist())
    return list(found)
