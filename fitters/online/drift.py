"""Two drift detectors over a stream of iterations, each a few additions an observation."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(slots=True)
class MissCusum:
    """Bernoulli CUSUM (Page 1954; Reynolds & Stoumbos 1999): has the miss rate risen from `usual` to `raised`?

    Sums the log likelihood ratio of each outcome and never falls below 0. value: the sum so far.
    With 0.01 against 0.03: ten misses in a row alarm; at a rate of 0.03 it takes about 720 iterations, and at
    a steady 0.01 a false alarm comes once in 3.5 million (`benchmarks/online_drift.py` simulates both).
    """

    usual: float
    raised: float
    value: float = 0.0

    THRESHOLD = 10.0

    def add(self, missed: bool) -> bool:
        """True on alarm; the sum starts again."""
        if missed:
            self.value += math.log(self.raised / self.usual)
        else:
            self.value = max(0.0, self.value + math.log((1 - self.raised) / (1 - self.usual)))
        if self.value <= self.THRESHOLD:
            return False
        self.value = 0.0
        return True


@dataclass(slots=True)
class PageHinkley:
    """Page-Hinkley test (Page 1954; Hinkley 1971): has the mean of x risen by more than ALLOWED?

    x is log(T / E) in units of the table's own margin log(U / E), so that the constants mean the same on a quiet
    and on a noisy device; single iterations count for at most LIMIT. total: of x less its running mean and
    ALLOWED; lowest: the least total so far.
    """

    count: int = 0
    mean: float = 0.0
    total: float = 0.0
    lowest: float = 0.0

    LIMIT = 2.0
    ALLOWED = 0.25
    THRESHOLD = 25.0

    def add(self, x: float) -> bool:
        """True on alarm; the test starts again from the level it finds."""
        x = min(max(x, -self.LIMIT), self.LIMIT)
        self.count += 1
        self.mean += (x - self.mean) / self.count
        self.total += x - self.mean - self.ALLOWED
        self.lowest = min(self.lowest, self.total)
        if self.total - self.lowest <= self.THRESHOLD:
            return False
        self.count, self.mean, self.total, self.lowest = 0, 0.0, 0.0, 0.0
        return True
