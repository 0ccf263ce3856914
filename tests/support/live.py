"""A calibrator led through the iterations of an engine on the synthetic device."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from chunkfit.fitters.online.calibrator import OnlineCalibrator
from chunkfit.profiler.synthetic_profile import synthetic_iterations
from chunkfit.tables import Batch, CostTable


@dataclass(frozen=True)
class Run:
    """missed: bool (iterations,). bound_factor: of the table each iteration was judged by."""

    calibrator: OnlineCalibrator
    missed: np.ndarray
    bound_factor: np.ndarray


def led(table: CostTable, seed: int, count: int, slower: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Run:
    """A fresh calibrator after `count` iterations. slower(i, points): what iteration i takes times the truth."""
    points, latency_ms = synthetic_iterations(seed, count)
    latency_ms = latency_ms * slower(np.arange(count), points)
    calibrator = OnlineCalibrator(table)
    missed, factor = np.zeros(count, bool), np.zeros(count)
    for i, (point, ms) in enumerate(zip(points.tolist(), latency_ms.tolist(), strict=True)):
        batch, view = Batch.of(*point), calibrator.table
        before = calibrator.misses
        calibrator.observe(batch, ms)
        missed[i], factor[i] = calibrator.misses > before, view.bound.factor / 4096
    return Run(calibrator, missed, factor)
