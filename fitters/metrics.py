"""How far a table is from measured rows: errors in percent, coverage with exact intervals, coverage by traffic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from ..profiler.profile import Profile
from ..profiler.traffic import Cells
from ..tables.arrays import TableArrays
from ..tables.schema_v1 import CountsV1, ErrorsV1
from .rows import Rows, held_out

BOOTSTRAP_DRAWS = 1000


def clopper_pearson(covered: int, rows: int, confidence: float = 0.95) -> tuple[float, float]:
    """Exact two-sided interval of a binomial share (Clopper & Pearson 1934); (0, 1) without rows."""
    if not rows:
        return 0.0, 1.0
    interval = binomtest(covered, rows).proportion_ci(confidence, "exact")
    return float(interval.low), float(interval.high)


def counts(rows: Rows, bound_ms: NDArray[np.float64]) -> CountsV1:
    """Rows with T <= U."""
    total, covered = len(rows), int((rows.latency_ms <= bound_ms).sum())
    if not total:
        return CountsV1(points=0, rows=0, covered=0, coverage=None, low=None, high=None)
    low, high = clopper_pearson(covered, total)
    return CountsV1(points=rows.point_count, rows=total, covered=covered, coverage=covered / total, low=low, high=high)


def block_bootstrap(rows: Rows, bound_ms: NDArray[np.float64]) -> tuple[float, float]:
    """2.5% and 97.5% points of the coverage when whole points are drawn again (rows of a point go together).

    Points with the same numbers of rows and hits are alike, so only the count of each kind is drawn. This is the same
    distribution as drawing the points, without an index for each point of each draw.
    """
    _, inverse = np.unique(rows.point_id, return_inverse=True)
    size = np.bincount(inverse)
    hit = np.bincount(inverse[rows.latency_ms <= bound_ms], minlength=len(size))
    kinds, often = np.unique(np.column_stack([size, hit]), axis=0, return_counts=True)
    draws = np.random.default_rng(0).multinomial(len(size), often / len(size), size=BOOTSTRAP_DRAWS)
    shares = draws @ kinds[:, 1] / (draws @ kinds[:, 0])
    low, high = np.quantile(shares, [0.025, 0.975])
    return float(low), float(high)


def pinball(error: NDArray[np.float64], quantile: float) -> float:
    """Mean pinball loss of errors y - prediction."""
    return float(np.mean(np.maximum(quantile * error, (quantile - 1) * error)))


def errors(rows: Rows, expected_ms: NDArray[np.float64], bound_ms: NDArray[np.float64]) -> ErrorsV1:
    """Of single rows (iterations), in percent of the measured time."""
    t = rows.latency_ms
    relative = (t - expected_ms) / t
    absolute = np.abs(relative)
    return ErrorsV1(
        rows=len(rows),
        mape_percent=float(100 * absolute.mean()),
        median_percent=float(100 * np.median(absolute)),
        p90_percent=float(100 * np.quantile(absolute, 0.9)),
        p99_percent=float(100 * np.quantile(absolute, 0.99)),
        worst_under_percent=float(100 * relative.max()),
        worst_under_ms=float((t - expected_ms).max()),
        mean_bound_ratio=float((bound_ms / t).mean()),
        pinball_50=100 * pinball(relative, 0.5),
        pinball_99=100 * pinball((t - bound_ms) / t, 0.99),
    )


@dataclass(frozen=True, slots=True)
class WeightedCoverage:
    """Coverage of the test session as the traffic would see it, beside the plain one.

    coverage: of the test rows, each weighted with its cell's share of the traffic. seen: share of the traffic in cells
    with test rows. rows: number of equally weighted rows with the same variance (Kish 1965).
    """

    coverage: float
    seen: float
    rows: float


def traffic_coverage(profile: Profile, arrays: TableArrays) -> WeightedCoverage | None:
    """Coverage by traffic; None without traffic, and where none of its cells holds a test row."""
    if profile.meta.traffic is None:
        return None
    test = held_out(profile, "test", arrays.ladders)
    cells = Cells(profile.meta.domain)
    cell = cells.of(test.points)
    share = profile.meta.traffic.per_cell(cells)
    weight = share[cell] / np.bincount(cell, minlength=cells.count)[cell]
    seen = float(weight.sum())
    if not seen:
        return None
    covered = test.latency_ms <= arrays.read(test.points)[1]
    return WeightedCoverage(float(weight @ covered) / seen, min(seen, 1.0), seen**2 / float(weight @ weight))
