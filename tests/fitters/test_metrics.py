"""Metrics by hand and against SciPy."""

import numpy as np
import pytest
from scipy.stats import binomtest

from chunkfit.fitters.metrics import block_bootstrap, clopper_pearson, counts, errors, pinball
from chunkfit.fitters.rows import Rows, at_most, point_medians


def rows(latency, ids=None):
    latency = np.asarray(latency, dtype=float)
    ids = np.arange(len(latency)) if ids is None else np.asarray(ids)
    return Rows(np.tile([1, 1, 0, 0], (len(latency), 1)), latency, ids, np.zeros(len(latency), dtype=bool))


@pytest.mark.parametrize(("covered", "total"), [(0, 10), (10, 10), (990, 1000), (1, 3)])
def test_clopper_pearson_is_the_exact_interval(covered, total):
    expected = binomtest(covered, total).proportion_ci(0.95, "exact")
    assert clopper_pearson(covered, total) == pytest.approx((expected.low, expected.high))


def test_counts_and_errors_by_hand():
    measured = rows([10.0, 20.0, 40.0])
    expected, bound = np.array([9.0, 22.0, 40.0]), np.array([11.0, 19.0, 44.0])
    count = counts(measured, bound)
    assert (count.covered, count.rows, count.points) == (2, 3, 3)
    found = errors(measured, expected, bound)
    assert found.mape_percent == pytest.approx(100 * (0.1 + 0.1 + 0) / 3)
    assert found.worst_under_ms == pytest.approx(1.0)
    assert found.worst_under_percent == pytest.approx(10.0)
    assert found.mean_bound_ratio == pytest.approx((1.1 + 0.95 + 1.1) / 3)
    assert pinball(np.array([1.0, -1.0]), 0.99) == pytest.approx((0.99 + 0.01) / 2)


def test_no_rows_say_unknown_not_perfect():
    assert counts(rows([]), np.array([])).coverage is None


def test_bootstrap_keeps_the_rows_of_a_point_together():
    """Ten points of 50 equal rows: whole points come and go, so the interval is that of ten, not of 500."""
    ids = np.repeat(np.arange(10), 50)
    measured = rows(np.repeat([9.0] * 9 + [11.0], 50), ids)
    low, high = block_bootstrap(measured, np.full(500, 10.0))
    assert low <= 0.7
    assert high == 1.0


def test_bootstrap_draws_kinds_of_points_as_it_would_draw_points():
    """Points of one to four rows: the interval is that of drawing indices, up to the noise of a thousand draws."""
    rng = np.random.default_rng(3)
    ids = np.repeat(np.arange(300), rng.integers(1, 5, 300))
    measured = rows(np.where(rng.random(len(ids)) < 0.05, 11.0, 9.0), ids)
    hit, size = np.bincount(ids, weights=measured.latency_ms <= 10.0), np.bincount(ids)
    drawn = rng.integers(0, 300, (20_000, 300))
    shares = hit[drawn].sum(axis=1) / size[drawn].sum(axis=1)
    assert block_bootstrap(measured, np.full(len(ids), 10.0)) == pytest.approx(
        np.quantile(shares, [0.025, 0.975]), abs=0.003
    )


def test_point_medians_of_odd_even_and_unsorted_repeats():
    medians = point_medians(rows([3.0, 7.0, 1.0, 2.0, 8.0], ids=[4, 9, 4, 4, 9]))
    assert medians.point_id.tolist() == [4, 9]
    assert medians.latency_ms.tolist() == [2.0, 7.5]


def test_at_most_keeps_whole_points_and_the_same_ones():
    rows = Rows(np.zeros((30, 4), dtype=int), np.arange(30.0) + 1, np.repeat(np.arange(10), 3), np.zeros(30, bool))
    few = at_most(rows, 4)
    assert (few.point_count, len(few)) == (4, 12)
    assert (at_most(rows, 4).point_id == few.point_id).all()
    assert at_most(rows, 10) is rows


def test_at_most_bounds_the_repeats_too():
    """A log of few batches, each a thousand times: three rows a point are kept, of all points and of all times."""
    rows = Rows(np.zeros((4000, 4), dtype=int), np.arange(4000.0) + 1, np.arange(4000) % 4, np.zeros(4000, bool))
    few = at_most(rows, 40)
    assert (few.point_count, len(few)) == (4, 120)
    assert (np.diff(few.latency_ms) > 0).all()
    assert few.latency_ms[-1] > 3500
