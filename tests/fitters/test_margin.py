"""Order statistics and drift: the arithmetic of the promise, against brute force and simulation."""

import numpy as np
import pytest
from scipy.stats import binom

from chunkfit.files.errors import CertificationError
from chunkfit.fitters.margin import (
    MIN_ANCHORS,
    best_coverage,
    centred,
    noise_margins,
    order_statistic,
    points_needed,
    session_drift,
)
from chunkfit.fitters.rows import Rows


@pytest.mark.parametrize(
    ("points", "coverage", "allowed"),
    [(298, 0.99, None), (299, 0.99, 0), (1000, 0.99, 4), (58, 0.95, None), (59, 0.95, 0), (29, 0.90, 0)],
)
def test_allowed_exceedances(points, coverage, allowed):
    k = order_statistic(points, coverage, 0.95)
    assert (None if k is None else points - k) == allowed


@pytest.mark.parametrize("points", [300, 473, 700, 1000, 2500])
def test_order_statistic_is_the_smallest_with_confidence(points):
    """P(coverage of the k-th smallest >= 0.99) = P(fewer than k of m fall below the 0.99 quantile)."""
    k = order_statistic(points, 0.99, 0.95)
    held = [binom.cdf(j - 1, points, 0.99) for j in (k - 1, k)]
    assert held[0] < 0.95 <= held[1]


def test_points_needed_is_the_first_count_that_certifies():
    for coverage in (0.9, 0.95, 0.99, 0.995):
        m = points_needed(coverage, 0.95)
        assert order_statistic(m, coverage, 0.95) == m
        assert order_statistic(m - 1, coverage, 0.95) is None
        assert order_statistic(m, best_coverage(m, 0.95), 0.95) == m


def test_too_few_points_are_refused_with_the_number_needed():
    scenes = np.array(["decode"] * 63)
    with pytest.raises(CertificationError, match=r"m = 63 calibration points, needs 299.*--coverage 0\.953"):
        noise_margins(np.arange(63.0), scenes, 0.99, 0.95)
    (margin,) = noise_margins(np.arange(63.0), scenes, 0.953, 0.95)
    assert (margin.multiplier, margin.allowed) == (62.0, 0)


def test_scenes_pool_below_a_thousand_points_and_part_above():
    rng = np.random.default_rng(0)
    scenes = np.array(["decode"] * 1200 + ["prefill"] * 400 + ["mixed"] * 300)
    margins = noise_margins(rng.exponential(size=1900), scenes, 0.99, 0.95)
    assert [[s.value for s in m.scenes] for m in margins] == [["decode"], ["prefill", "mixed"]]
    # Two groups: each is held at 97.5%, so that both hold together at 95%.
    assert margins[0].allowed == 1200 - order_statistic(1200, 0.99, 0.975) < 1200 - order_statistic(1200, 0.99, 0.95)
    # A rest that cannot stand alone joins again.
    few = np.array(["decode"] * 1200 + ["mixed"] * 100)
    (one,) = noise_margins(rng.exponential(size=1300), few, 0.99, 0.95)
    assert one.points == 1300


def test_margin_covers_with_its_confidence():
    """2,000 sessions of 700 exchangeable scores: the share that covers 0.99 is at least 0.95, and not all."""
    rng = np.random.default_rng(1)
    scenes = np.array(["mixed"] * 700)
    truth = [
        1 - np.exp(-noise_margins(rng.exponential(size=700), scenes, 0.99, 0.95)[0].multiplier) for _ in range(2000)
    ]
    good = np.mean(np.array(truth) >= 0.99)
    assert 0.945 <= good < 0.985


def rows(ids, latency):
    ids = np.asarray(ids)
    points = np.column_stack([ids + 1, ids + 1, ids * 0, ids * 0])
    return Rows(points, np.asarray(latency, dtype=float), ids, np.zeros(len(ids), dtype=bool))


def test_drift_is_the_median_ratio_over_shared_points():
    ids = np.arange(40)
    before = rows(np.repeat(ids, 3), np.tile([10.0, 10.0, 99.0], 40))  # one stall in three: the median ignores it
    after = rows(np.arange(5, 45), np.full(40, 10.2))
    drift = session_drift(before, after)
    assert drift.factor == pytest.approx(1.02)
    assert "35 shared points" in drift.detail
    down = session_drift(before, rows(ids, np.full(40, 10 / 1.02)))
    assert (down.factor, down.ratio) == (pytest.approx(1.02), pytest.approx(1 / 1.02))
    assert centred(before, drift).latency_ms[0] == pytest.approx(10 * 1.02**0.5)


def test_drift_needs_enough_shared_points():
    few = rows(np.arange(MIN_ANCHORS - 1), np.full(MIN_ANCHORS - 1, 10.0))
    drift = session_drift(few, few)
    assert drift.factor is None
    assert f"{MIN_ANCHORS - 1} points shared" in drift.detail
    assert centred(few, drift) is few
