"""The order of a session's points with its sentinels, and the timing of one point without garbage collection."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .devices.base import Device, Sample
from .plan import PlanPoint, SweepPlan


def measure(device: Device, point: PlanPoint, plan: SweepPlan) -> list[Sample]:
    """The point's repeats, timed, after untimed iterations of the same shape (`_warm`). Raises DeviceMemoryError."""
    _warm(device, point, plan)
    return [device.run() for _ in range(point.repeats)]


def measure_in_turn(device: Device, points: Sequence[PlanPoint], plan: SweepPlan) -> list[list[Sample]]:
    """Each point's repeats, one of each in turn: what is to be compared sees the same moments of the machine.

    A shared CPU runs at one speed for a second and at 1.5 times the time for the next: measured one after the
    other, of 32 pairs some had one half in each, and the largest ratio is the factor. Before each timed iteration
    an untimed one brings the batch's own pages into the caches, as repeats of one batch would. The repeats are those
    of the first point. Raises DeviceMemoryError.
    """
    for point in points:
        _warm(device, point, plan)
    samples: list[list[Sample]] = [[] for _ in points]
    for _ in range(points[0].repeats):
        for point, own in zip(points, samples, strict=True):
            device.prepare(point.batch())
            device.run()
            own.append(device.run())
    return samples


def _warm(device: Device, point: PlanPoint, plan: SweepPlan) -> None:
    """At least `plan.warmups` untimed iterations and at least `plan.warmup_ms` in all.

    The first iteration of a shape compiles, allocates and fills caches, and took 30 times as long where it
    was timed. Iterations under 2.5 ms on a CPU take ten of them: after two, a session that times a point
    once read 1.2 times what one that times it often did.
    """
    device.prepare(point.batch())
    gc.collect()
    spent_ms, done = 0.0, 0
    while done < plan.warmups or spent_ms < plan.warmup_ms:
        spent_ms += device.run().latency_ms
        done += 1


@contextmanager
def quiet_gc() -> Iterator[None]:
    """No garbage collection of its own accord: a full one takes longer than many iterations.

    What exists now is frozen, so that the collection before each point looks at little.
    """
    enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if enabled:
            gc.enable()


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
