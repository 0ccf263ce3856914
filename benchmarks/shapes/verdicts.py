"""Rows of a comparison: a figure over seeds, a ratio of two means, a claim with its verdict, and a reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from report import Row

PASS, FAIL = "PASS", "FAIL"


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of means over seeds; low and high are the least and the largest of single seeds."""

    value: float
    low: float
    high: float
    seeds: int


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """nan where theirs is 0 on average."""
    a, b = np.asarray(ours, float), np.asarray(theirs, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        single = a / b
        return Ratio(float(a.mean() / b.mean()), float(single.min()), float(single.max()), len(a))


def figure(name: str, values: Sequence[float], unit: str) -> Row:
    """Mean over seeds; low and high are their range."""
    return Row(name, float(np.mean(values)), unit, len(values), float(min(values)), float(max(values)))


def ratio_row(name: str, found: Ratio) -> Row:
    """A ratio without a finite value is none."""
    low, high = (bound if np.isfinite(bound) else None for bound in (found.low, found.high))
    value = found.value if np.isfinite(found.value) else None
    return Row(name, value, "x" if value is not None else "nothing to compare with: 0", found.seeds, low, high)


def claim(title: str, found: Ratio, least: float, most: float | None = None) -> Row:
    """The name begins with the verdict."""
    held = found.value >= least and (most is None or found.value <= most)
    limits = f"at least {least:g}" if most is None else f"{least:g} to {most:g}"
    return ratio_row(f"{PASS if held else FAIL}: {title}, {limits}", found)


def why(title: str, reason: str) -> Row:
    """A reason has no value."""
    return Row(f"why: {title}", None, reason, 0)


@dataclass(frozen=True, slots=True)
class Beside:
    """A published figure and ours. n: their seeds, 0 where not published."""

    what: str
    published: float
    unit: str
    n: int
    measured: Row

    def differs(self) -> bool:
        """By more than a twentieth of the published figure, and more than half of its last printed digit."""
        most = max(0.05 * self.published, 0.05)
        return self.measured.value is None or abs(self.measured.value - self.published) > most

    def rows(self) -> Iterator[Row]:
        yield Row(f"published: {self.what}", self.published, self.unit, self.n)
        m = self.measured
        yield Row(f"measured: {self.what}", m.value, self.unit, m.n, m.lo, m.hi)


def best(goodputs: dict[str, Sequence[float]]) -> str:
    """The name with the greatest mean over seeds: chosen with hindsight, which favours it."""
    return max(goodputs, key=lambda name: float(np.mean(goodputs[name])))
