"""How far a table's level and margin are from what an engine measures now: two numbers, tracked apart.

level: log of what expected times have to be multiplied by, the median of log(T / E) over the last WINDOW
iterations. It follows a step of any size within WINDOW / 2 iterations, exactly, and WINDOW / 2 - 1 outliers in a
row, of any size, do not move it.
tail: log of what bounds have to be multiplied by on top of that. After each iteration it moves up by TAIL_STEP
times (missed - share of misses aimed at): online gradient on the pinball loss of log(T / U), which is quantile
tracking (Angelopoulos, Candes & Tibshirani 2023, after adaptive conformal inference, Gibbs & Candes 2021). Between
alarms the miss rate exceeds the aim by no more than the tail rose over TAIL_STEP times the iterations, whatever the
law of T; it may lie below, where `lowest_tail` holds the tail up.

A gradient remembers outliers for long: 50 misses have to be paid back by 50 / 0.01 iterations without any. So what
an alarm adds is provisional, and is given back once the last WINDOW iterations would have been covered without it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from dataclasses import dataclass, field

# 128: the median of as many is known to 1.25 sd / 11, and a burst of 50 is well under half of them.
WINDOW = 128
TAIL_STEP = 0.005  # a miss raises the bound by 0.5%, a hundred covered iterations take that back
WIDEN_AT_ONCE = 0.10
WIDEN_STEP = 0.02  # per miss while an alarm is open
TOLERATED_MISSES = 3  # of WINDOW: at the aimed 1% there are more in 4% of windows
KEPT_AFTER = 4 * WINDOW


@dataclass(slots=True)
class LevelTracker:
    """Median of the last WINDOW log(T / E); before there are as many, the table's word (0) fills the window.

    pairs: (log(T / E), log(T / U)) in the order they came.
    """

    pairs: deque[tuple[float, float]] = field(default_factory=lambda: deque([(0.0, 0.0)] * WINDOW))
    ordered: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.ordered = sorted(over_expected for over_expected, _ in self.pairs)

    def add(self, over_expected: float, over_bound: float) -> float:
        """The new median."""
        ordered = self.ordered
        del ordered[bisect_left(ordered, self.pairs.popleft()[0])]
        self.pairs.append((over_expected, over_bound))
        insort(ordered, over_expected)
        return self.median()

    def median(self) -> float:
        return (self.ordered[WINDOW // 2 - 1] + self.ordered[WINDOW // 2]) / 2

    def excesses(self) -> list[float]:
        """log(T / U) less the level, of the window, ascending."""
        level = self.median()
        return sorted(over_bound - level for _, over_bound in self.pairs)


@dataclass(slots=True)
class TailTracker:
    """aim: share of misses aimed at. value: the tail now. before: what it was when the open alarm came, if one is
    open, and `age` the iterations since."""

    aim: float
    value: float = 0.0
    before: float | None = None
    age: int = 0

    def add(self, missed: bool, level: LevelTracker) -> str | None:
        """Move by one outcome; "given_back" or "kept" when an open alarm ends here."""
        step = TAIL_STEP if self.before is None else WIDEN_STEP
        self.value += step if missed else 0.0
        self.value -= TAIL_STEP * self.aim
        ended = None if self.before is None else self._end(self.before, level)
        self.value = max(self.value, lowest_tail(level.median()))
        return ended

    def widen(self, level: LevelTracker) -> bool:
        """On alarm; False while one is open: then each miss widens already."""
        if self.before is not None:
            return False
        # The misses that raised a quick alarm have moved the tail already; that is provisional too.
        excesses = level.excesses()
        late = WINDOW - bisect_right(excesses, self.value)
        self.before, self.age = self.value - TAIL_STEP * max(0, late - TOLERATED_MISSES), 0
        self.value += WIDEN_AT_ONCE
        return True

    def _end(self, before: float, level: LevelTracker) -> str | None:
        self.age += 1
        if self.age < WINDOW:
            return None
        excesses = level.excesses()
        if excesses[-TOLERATED_MISSES - 1] <= before:
            self.value, ended = before, "given_back"
        elif self.age >= KEPT_AFTER:
            # The largest of the last 128 covers the next one with probability 128 / 129.
            self.value, ended = min(self.value, max(before, excesses[-1])), "kept"
        else:
            return None
        self.before = None
        return ended


def lowest_tail(level: float) -> float:
    """The certified bound is never undercut, unless the device became faster, and then only by as much as that.

    level + tail >= min(level, 0): live iterations are those that a scheduler chose, no sample of the law that the
    certificate is about, and may correct the bound upward only.
    """
    return -max(level, 0.0)
