"""Predictions of several data sets and seeds to the figures of one line of the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from chunkfit.fitters.metrics import clopper_pearson

from .predictions import COVERAGE, Prediction

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Score:
    """In percent where the name says so; bound: name of the bound. rows: held out.

    factor: what the bound is multiplied by to cover 99% of the held-out rows, matched_ratio: mean U/T then.
    gap_percent: mean of the closed over the unclosed bound, less 1. falls_percent: the worst axis, of falls:
    axis -> (falling, asked).
    """

    bound: str
    rows: int
    mape_percent: float
    p99_percent: float
    worst_under_percent: float
    coverage: float
    bound_ratio: float
    factor: float
    matched_ratio: float
    gap_percent: float | None
    unclosed_mape_percent: float | None
    unclosed_p99_percent: float | None
    falls: dict[str, tuple[int, int]]

    @property
    def coverage_interval(self) -> tuple[float, float]:
        """Clopper-Pearson at 95%, of the rows of one seed: those of several are not independent."""
        return clopper_pearson(round(self.coverage * self.rows), self.rows)

    @property
    def falls_percent(self) -> float:
        return max((100 * fallen / asked for fallen, asked in self.falls.values()), default=0.0)


def scores(predictions: Sequence[Prediction]) -> dict[str, Score]:
    """By bound: of the rows of all `predictions` together (the data sets of one group, one seed)."""
    t = np.concatenate([p.latency_ms for p in predictions])
    expected = np.concatenate([p.expected_ms for p in predictions])
    found = {}
    for name in predictions[0].bounds_ms:
        bound = np.concatenate([p.bounds_ms[name] for p in predictions])
        factor = matching_factor(t, bound)
        raw_expected = _joined([p.unclosed_expected_ms for p in predictions])
        raw_bound = _joined([p.unclosed_bound_ms for p in predictions])
        mape, p99 = _errors(t, expected)
        raw_mape, raw_p99 = (None, None) if raw_expected is None else _errors(t, raw_expected)
        found[name] = Score(
            bound=name,
            rows=len(t),
            mape_percent=mape,
            p99_percent=p99,
            worst_under_percent=float(100 * ((t - expected) / t).max()),
            coverage=float((t <= bound).mean()),
            bound_ratio=float((bound / t).mean()),
            factor=factor,
            matched_ratio=float((factor * bound / t).mean()),
            gap_percent=None if raw_bound is None else float(100 * (bound / raw_bound - 1).mean()),
            unclosed_mape_percent=raw_mape,
            unclosed_p99_percent=raw_p99,
            falls=_summed([p.falls for p in predictions]),
        )
    return found


def matching_factor(latency_ms: Floats, bound_ms: Floats) -> float:
    """The smallest factor with which the bound covers 99% of these rows."""
    ratios = np.sort(latency_ms / bound_ms)
    return float(ratios[int(np.ceil(COVERAGE * len(ratios))) - 1])


def mean_score(seeds: Sequence[Score]) -> Score:
    """Mean of every figure over seeds; falling steps are counted together."""
    first, means = seeds[0], {}
    for field in fields(Score):
        values = [getattr(score, field.name) for score in seeds]
        if field.name == "falls":
            means["falls"] = _summed(values)
        elif field.name not in ("bound", "rows"):
            means[field.name] = None if values[0] is None else float(np.mean(values))
    return Score(bound=first.bound, rows=round(np.mean([score.rows for score in seeds])), **means)


def _errors(t: Floats, expected: Floats) -> tuple[float, float]:
    absolute = 100 * np.abs(t - expected) / t
    return float(absolute.mean()), float(np.quantile(absolute, 0.99))


def _joined(parts: Sequence[Floats | None]) -> Floats | None:
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if len(known) == len(parts) else None


def _summed(counts: Sequence[dict[str, tuple[int, int]]]) -> dict[str, tuple[int, int]]:
    axes = list(dict.fromkeys(axis for one in counts for axis in one))
    return {
        a: (sum(one.get(a, (0, 0))[0] for one in counts), sum(one.get(a, (0, 0))[1] for one in counts)) for a in axes
    }
