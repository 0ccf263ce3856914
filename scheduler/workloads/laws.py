"""Laws of synthetic workloads: prompt and output lengths, and arrival processes.

An arrival process is a fixed stream of unit waiting times, stretched to the rate. With one seed, a higher rate brings
the same requests sooner, so two rates are compared by common random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...files.errors import UsageError

Z90 = 1.2815515655446004  # the normal distribution's 0.9 quantile
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Lognormal:
    """exp(log median + sigma N), rounded, at least 1 token."""

    median_tokens: float
    sigma: float

    @classmethod
    def of_mean_p90(cls, mean_tokens: float, p90_tokens: float) -> Lognormal:
        """The narrower of the two laws with this mean and 0.9 quantile.

        log(p90 / mean) = Z90 sigma - sigma^2 / 2 has a root up to a ratio of 2.27. Raises ValueError beyond.
        """
        room = Z90**2 - 2 * math.log(p90_tokens / mean_tokens)
        if room < 0 or p90_tokens < mean_tokens:
            raise ValueError(f"no lognormal law has mean {mean_tokens:g} and P90 {p90_tokens:g}")
        sigma = Z90 - math.sqrt(room)
        return cls(mean_tokens * math.exp(-(sigma**2) / 2), sigma)

    @classmethod
    def of_median_p90(cls, median_tokens: float, p90_tokens: float) -> Lognormal:
        return cls(median_tokens, math.log(p90_tokens / median_tokens) / Z90)

    def tokens(self, normal: NDArray[np.float64]) -> Ints:
        """One length for each standard normal draw."""
        return np.maximum(np.rint(self.median_tokens * np.exp(self.sigma * normal)), 1).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Application:
    """One application of a mix: its share of the requests and its laws of lengths."""

    share: float
    prompt: Lognormal
    output: Lognormal


# SLOWeave's simulator, as reconstructed: its papers print medians of some, the rest lands near its figures. Where
# nothing is known (outputs of chat, lengths of bursty) they are those of mixed.
_OUTPUT = Lognormal(77, 0.55)
CHAT = (Application(1.0, Lognormal(256, 0.8), _OUTPUT),)
MIXED = (Application(0.72, Lognormal(560, 0.5), _OUTPUT), Application(0.28, Lognormal(2100, 0.5), _OUTPUT))
LONG = (Application(1.0, Lognormal(3574, 0.38), Lognormal(145, 0.63)),)

# SlidingServe's Table 2 prints means and P90s. No lognormal law has ShareGPT's prompts (357, 1724: P90 is at most 2.27
# times the mean), so that one figure is read as a median.
_DIALOGUE = (Lognormal.of_median_p90(357, 1724), Lognormal.of_mean_p90(89, 184))
_ARXIV_V1 = (Lognormal.of_mean_p90(3253, 4382), Lognormal.of_mean_p90(356, 542))
_ARXIV_V2 = (Lognormal.of_mean_p90(6267, 7567), Lognormal.of_mean_p90(423, 623))
SHAREGPT = (Application(1.0, *_DIALOGUE),)
ARXIV_V1 = (Application(1.0, *_ARXIV_V1),)
ARXIV_V2 = (Application(1.0, *_ARXIV_V2),)
MIXED_V1 = (Application(3 / 4, *_DIALOGUE), Application(1 / 4, *_ARXIV_V1))
MIXED_V2 = (Application(5 / 6, *_DIALOGUE), Application(1 / 6, *_ARXIV_V2))


@dataclass(frozen=True, slots=True)
class Shape:
    """Parameters of a process beside its rate.

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
# With the options of `Shape` that each takes, and their defaults.
PROCESSES: dict[str, tuple[Process, dict[str, str]]] = {
    "poisson": (poisson, {}),
    "gamma": (gamma, {"cv": "2"}),
    "on-off": (on_off, {"period": "4s", "on": "1s", "peak": "2.93x"}),
    "square": (square, {"period": "240s", "on": "120s", "peak": "1.4285714285714286x"}),
}
