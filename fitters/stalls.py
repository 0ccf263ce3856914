"""What a bound rests on: the price of its promise, and stalls that have nothing to do with the batch.

Every calibration row has a score (T - E) / (U - E): 1 lies on the bound. An order statistic of the scores is the bound
of another coverage, in the same units. A stall of the host, such as a garbage collector's, makes a few iterations much
longer whatever their batch: the scores then have a gap in their tail, and the rows beyond it are like all others in
n, k, c and u. With more of them than the promise allows the bound is theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ks_2samp

from ..tables.arrays import TableArrays
from ..tables.schema_v1 import PriceV1
from ..tables.verdict import ConcernV1, Grade
from .margin import order_statistic
from .metrics import clopper_pearson
from .rows import Rows

COVERAGES = (0.9, 0.95, 0.98, 0.99, 0.995)
LEAST_STALLS = 3
MOST_STALLS = 0.05  # of the rows; more are a mode, no rare event
GAP = 3.0  # of the smallest stall's score to the largest other one's
ALIKE = 0.01  # p-value below which stalls have batches of their own
SET_BOUND = 1.5  # the bound over the one without stalls, from which they set it

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Stalls:
    """`rows` are indices of the calibration rows that stalled.

    rate_high: upper 95% limit of their share. factor: median T / E of them. ratio, ratio_without: mean U / T of the
    bound and of the one that the other rows alone would give, over these others.
    """

    rows: NDArray[np.int64]
    rate: float
    rate_high: float
    factor: float
    ratio: float
    ratio_without: float


def scores_of(arrays: TableArrays, rows: Rows) -> tuple[Floats, Floats, Floats]:
    """(score, E, U - E) of each row, each (rows,)."""
    expected_ms, bound_ms = arrays.read(rows.points)
    margin_ms = np.maximum(bound_ms - expected_ms, 1e-9)
    return (rows.latency_ms - expected_ms) / margin_ms, expected_ms, margin_ms


def price(arrays: TableArrays, rows: Rows, confidence: float) -> list[PriceV1]:
    """Mean U / T over the calibration rows at each coverage that they can certify."""
    scores, expected_ms, margin_ms = scores_of(arrays, rows)
    ordered = np.sort(scores)
    found = []
    for coverage in COVERAGES:
        k = order_statistic(len(rows), coverage, confidence)
        if k is not None:
            ratio = _ratio(expected_ms, margin_ms, rows.latency_ms, float(ordered[k - 1]))
            found.append(PriceV1(coverage=coverage, mean_bound_ratio=ratio))
    return found


def find_stalls(arrays: TableArrays, rows: Rows, coverage: float, confidence: float) -> Stalls | None:
    """The stalls among the calibration rows; None where the tail has no gap or its batches are of their own kind."""
    scores, expected_ms, margin_ms = scores_of(arrays, rows)
    relative = rows.latency_ms / expected_ms - 1
    order = np.argsort(relative)
    most = int(MOST_STALLS * len(rows))
    tail = relative[order][len(rows) - most - 1 :]
    if most < LEAST_STALLS or tail[0] <= 0:
        return None
    gaps = tail[1:] / tail[:-1]
    # The largest gap with enough rows beyond it.
    at = int(np.argmax(gaps[: len(gaps) - LEAST_STALLS + 1]))
    if gaps[at] < GAP:
        return None
    stalled = np.sort(order[len(rows) - most + at :])
    others = np.setdiff1d(np.arange(len(rows)), stalled)
    if any(ks_2samp(rows.points[stalled, i], rows.points[others, i]).pvalue < ALIKE for i in range(4)):
        return None
    k = order_statistic(len(others), coverage, confidence) or len(others)  # too few certify nothing: all of them
    without = float(np.sort(scores[others])[k - 1])
    there = (expected_ms[others], margin_ms[others], rows.latency_ms[others])
    return Stalls(
        rows=stalled,
        rate=len(stalled) / len(rows),
        rate_high=clopper_pearson(len(stalled), len(rows))[1],
        factor=float(np.median(rows.latency_ms[stalled] / expected_ms[stalled])),
        ratio=_ratio(*there, 1.0),
        ratio_without=_ratio(*there, without),
    )


def stall_concerns(arrays: TableArrays, rows: Rows, coverage: float, confidence: float) -> Iterator[ConcernV1]:
    """rows: the calibration rows of the certificate."""
    found = find_stalls(arrays, rows, coverage, confidence)
    if found is None:
        return
    sets = found.ratio > SET_BOUND * found.ratio_without
    apart = np.diff(found.rows)
    every = f", one in {np.median(apart):.0f} rows" if len(apart) else ""
    yield ConcernV1(
        name="stalls",
        grade=Grade.WIDE if sets else Grade.GOOD,
        reason=f"{len(found.rows):,} of {len(rows):,} calibration rows ({100 * found.rate:.1f}%, at most "
        f"{100 * found.rate_high:.1f}%{every}) take {found.factor:.1f} times the expected time whatever their batch: "
        + (
            f"the bound is theirs, {found.ratio:.2f} times the measured time; without them it would be "
            f"{found.ratio_without:.2f} times"
            if sets
            else "fewer than the promise allows, so the bound does not include them"
        ),
        advice="find what stops the engine (a garbage collector, another process)"
        + (f", or promise less than {1 - found.rate_high:.3f} (--coverage)" if sets else ""),
    )


def _ratio(expected_ms: Floats, margin_ms: Floats, latency_ms: Floats, score: float) -> float:
    """Mean U / T of the bound at a score."""
    return float(np.mean((expected_ms + score * margin_ms) / latency_ms))
