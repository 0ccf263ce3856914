"""Capacity: the highest arrival rate with a given share of good requests, on average over seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..files.errors import UsageError
from .serving_metrics import SeedSummary, over_seeds

# The share of good requests at a rate (requests/s) and a seed. With one seed, a higher rate must bring the same
# requests sooner (common random numbers).
GoodShare = Callable[[float, int], float]


@dataclass(frozen=True, slots=True)
class Tried:
    """One rate, and the good shares of its seeds."""

    rate: float
    good: SeedSummary


@dataclass(frozen=True, slots=True)
class Capacity:
    """rate: the highest tried rate that reaches `share`; 0 where none does. above: the lowest that does not, or None.

    tried: in ascending order. orderly: the share does not rise with the rate; where False, `rate` may be one of several
    answers.
    """

    share: float
    rate: float
    above: float | None
    tried: tuple[Tried, ...]
    orderly: bool


def capacity(
    good_share: GoodShare, seeds: Sequence[int], share: float, low: float, high: float, tolerance: float = 0.01
) -> Capacity:
    """Bisection between low and high until they are within `tolerance` of each other, relative.

    share: of good requests on average over the seeds (0.99 in QoServe and SlidingServe, 0.9 in DistServe). Bisection
    is by the logarithm of the rate. Raises UsageError for an impossible range, share or tolerance, and without seeds.
    """
    if not (0 < low < high < np.inf and 0 < share <= 1 and 0 < tolerance < 1):
        raise UsageError(
            f"capacity: rates {low:g} to {high:g}, share {share:g}, tolerance {tolerance:g}; expected rates above 0 in "
            "ascending order, a share up to 1, a tolerance below 1"
        )
    tried: dict[float, SeedSummary] = {}

    def holds(rate: float) -> bool:
        tried[rate] = over_seeds([good_share(rate, seed) for seed in seeds])
        return tried[rate].mean >= share

    if not holds(low):
        return _capacity(share, 0.0, low, tried)
    if holds(high):
        return _capacity(share, high, None, tried)
    best, worst = low, high
    while worst > best * (1 + tolerance):
        middle = float(np.sqrt(best * worst))
        best, worst = (middle, worst) if holds(middle) else (best, middle)
    return _capacity(share, best, worst, tried)


def _capacity(share: float, rate: float, above: float | None, tried: dict[float, SeedSummary]) -> Capacity:
    ordered = tuple(Tried(each, tried[each]) for each in sorted(tried))
    means = [each.good.mean for each in ordered]
    return Capacity(share, rate, above, ordered, orderly=means == sorted(means, reverse=True))
