"""When requests arrive: renewal processes and waves of load.

Every process is a fixed stream of unit waiting times, stretched: with one seed a higher rate brings the same
requests sooner, which is what comparisons by common random numbers need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...files.errors import UsageError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a process may be told beside its rate.

    cv: standard deviation of the waiting times over their mean. A wave has `peak` times the mean rate for on_ms of
    every period_ms, and what is left of the mean for the rest.
    """

    cv: float
    period_ms: float
    on_ms: float
    peak: float


def poisson(rng: np.random.Generator, count: int, rate: float, shape: Shape) -> Floats:
    """Independent exponential waiting times. rate: mean requests/s; the result is ms."""
    return np.cumsum(rng.standard_exponential(count)) * (1000 / rate)


def gamma(rng: np.random.Generator, count: int, rate: float, shape: Shape) -> Floats:
    """Gamma waiting times of coefficient of variation cv: above 1 they come in clumps, below 1 evenly."""
    spread = shape.cv**2
    return np.cumsum(rng.standard_gamma(1 / spread, count)) * (spread * 1000 / rate)


def on_off(rng: np.random.Generator, count: int, rate: float, shape: Shape) -> Floats:
    """Poisson within each phase of a wave that starts on."""
    return _wave(rng, count, rate, shape, on_first=True)


def square(rng: np.random.Generator, count: int, rate: float, shape: Shape) -> Floats:
    """Poisson within each phase of a wave that starts low (SlidingServe 5.3: 1.0 and 2.5 requests/s, 2 min each)."""
    return _wave(rng, count, rate, shape, on_first=False)


def _wave(rng: np.random.Generator, count: int, rate: float, shape: Shape, on_first: bool) -> Floats:
    """Unit exponential waiting times through the inverse of the expected count, which is piecewise linear."""
    off_ms = shape.period_ms - shape.on_ms
    per_period = rate * shape.period_ms / 1000
    on_count = rate * shape.peak * shape.on_ms / 1000
    low_count = per_period - on_count
    if not 0 < shape.on_ms < shape.period_ms or low_count < -1e-9 * per_period:
        raise UsageError(
            f"arrivals: {shape.peak:g} times the mean rate for {shape.on_ms:g} ms of every {shape.period_ms:g} ms; "
            "expected on below period and peak x on at most the period: what is left of the mean is the low rate"
        )
    low_count = max(low_count, 0.0)
    first_ms, first_count = (shape.on_ms, on_count) if on_first else (off_ms, low_count)
    periods, within = np.divmod(np.cumsum(rng.standard_exponential(count)), per_period)
    within_ms = np.interp(within, [0.0, first_count, per_period], [0.0, first_ms, shape.period_ms])
    return periods * shape.period_ms + within_ms


Process = Callable[[np.random.Generator, int, float, Shape], Floats]
# With the options of `Shape` that each takes, and what they are unless said.
PROCESSES: dict[str, tuple[Process, dict[str, str]]] = {
    "poisson": (poisson, {}),
    "gamma": (gamma, {"cv": "2"}),
    "on-off": (on_off, {"period": "4s", "on": "1s", "peak": "2.93x"}),
    "square": (square, {"period": "240s", "on": "120s", "peak": "1.4285714285714286x"}),
}
