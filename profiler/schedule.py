"""In what order, and what at once, a session measures its points."""

from __future__ import annotations

from collections.abc import Sequence

from .plan import PlanPoint, SweepPlan


def with_sentinels(plan: SweepPlan, points: Sequence[PlanPoint]) -> list[PlanPoint]:
    """`points` with the sentinel first, after every `sentinel_every` points, and last; never between two of a pair."""
    schedule, since = [plan.sentinel], 0
    for group in side_by_side(points):
        if since >= plan.sentinel_every:
            schedule.append(plan.sentinel)
            since = 0
        schedule += group
        since += len(group)
    return [*schedule, plan.sentinel] if points else schedule


def side_by_side(points: Sequence[PlanPoint]) -> list[tuple[PlanPoint, ...]]:
    """What is measured at once: neighbours that are a pair together, every other point by itself."""
    groups: list[tuple[PlanPoint, ...]] = []
    for point in points:
        before = groups[-1] if groups else ()
        if len(before) == 1 and before[0].twin_of(point):
            groups[-1] = (before[0], point)
        else:
            groups.append((point,))
    return groups
