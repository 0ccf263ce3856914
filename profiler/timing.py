"""Measuring one point, with nothing of Python's own in the way."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from .devices.base import Device, Sample
from .plan import PlanPoint, SweepPlan


def measure(device: Device, point: PlanPoint, plan: SweepPlan, repeats: int) -> list[Sample]:
    """`repeats` timed iterations after untimed ones of the same shape, at least `plan.warmups` of them and
    at least `plan.warmup_ms` in all.

    The first iteration of a shape compiles, allocates and fills caches, and took 30 times as long where it
    was timed. Iterations under 2.5 ms on a CPU take ten of them: after two, a session that times a point
    once read 1.2 times what one that times it often did.
    Raises DeviceMemoryError.
    """
    device.prepare(point.batch())
    gc.collect()
    spent_ms, done = 0.0, 0
    while done < plan.warmups or spent_ms < plan.warmup_ms:
        spent_ms += device.run().latency_ms
        done += 1
    return [device.run() for _ in range(repeats)]


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
