"""Measuring one point, with nothing of Python's own in the way."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from .devices.base import Device, Sample
from .plan import PlanPoint


def measure(device: Device, point: PlanPoint, warmups: int, repeats: int) -> list[Sample]:
    """`repeats` timed iterations after `warmups` untimed ones of the same shape: the first iteration of a
    shape compiles, allocates and fills caches, and took 30 times as long where it was timed.

    Raises DeviceMemoryError.
    """
    device.prepare(point.batch())
    gc.collect()
    for _ in range(warmups):
        device.run()
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
