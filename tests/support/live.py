"""Iterations of a running engine on the synthetic device, and a calibrator led through them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from chunkfit.fitters.online import OnlineCalibrator
from chunkfit.profiler.devices import truth
from chunkfit.profiler.domains import default_domain, default_step_totals
from chunkfit.profiler.law import draw
from chunkfit.tables import Batch, CostTable


def live(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (count, 4) drawn with repetition from 1,500 of the plan's law, and their latencies in ms (count,)."""
    law = draw(default_domain("synthetic"), 1500, default_step_totals("synthetic"), np.random.SeedSequence(77))
    points = law.points[np.random.default_rng(seed).integers(0, len(law.points), count)]
    return points, truth.sample_ms(points, np.arange(count), 10_000 + seed, "live")


@dataclass(frozen=True)
class Run:
    """missed: bool (iterations,). bound_factor: of the table each iteration was judged by."""

    calibrator: OnlineCalibrator
    missed: np.ndarray
    bound_factor: np.ndarray


def led(table: CostTable, seed: int, count: int, slower: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Run:
    """A fresh calibrator after `count` iterations. slower(i, points): what iteration i takes times the truth."""
    points, latency_ms = live(seed, count)
    latency_ms = latency_ms * slower(np.arange(count), points)
    calibrator = OnlineCalibrator(table)
    missed, factor = np.zeros(count, bool), np.zeros(count)
    for i, (point, ms) in enumerate(zip(points.tolist(), latency_ms.tolist(), strict=True)):
        batch, view = Batch.of(*point), calibrator.table
        before = calibrator.misses
        calibrator.observe(batch, ms)
        missed[i], factor[i] = calibrator.misses > before, view.bound_factor / 4096
    return Run(calibrator, missed, factor)
