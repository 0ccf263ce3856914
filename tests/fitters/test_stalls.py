"""Stalls are told from batch noise, with their rate and the bound without them; the price of a promise is monotone."""

import numpy as np
import pytest
from support.fitting import fit
from support.synthetic_log import logged

from chunkfit.fitters.rows import held_out
from chunkfit.fitters.stalls import find_stalls, price
from chunkfit.profiler.synthetic_profile import synthetic_profile
from chunkfit.tables.verdict import Grade


def stalled(share, seed=4, factor=20.0, where=None):
    def change(ms):
        rng = np.random.default_rng(seed)
        hit = rng.random(len(ms)) < share if where is None else where(ms)
        return np.where(hit, ms * factor * rng.uniform(0.7, 1.3, len(ms)), ms)

    return change


def table_and_calibration(folder, rows=3500, **options):
    profile = logged(folder, rows=rows, **options)
    table = fit(profile)
    return table, held_out(profile, "calibrate", table.arrays.ladders)


def concern(table, name):
    return next((one for one in table.document.verdict.concerns if one.name == name), None)


def test_stalls_above_the_promise_set_the_bound_and_are_named(tmp_path):
    table, rows = table_and_calibration(tmp_path, change=stalled(0.025))
    found = find_stalls(table.arrays, rows, 0.99, 0.95)
    truly = np.flatnonzero(rows.latency_ms > 5 * table.read(rows.points)[0])
    np.testing.assert_array_equal(found.rows, truly)
    assert found.rate_high > found.rate > 0.01
    assert found.ratio > 5 > 1.3 > found.ratio_without > 1
    said = concern(table, "stalls")
    assert said.grade is Grade.WIDE
    assert "whatever their batch: the bound is theirs" in said.reason
    assert table.document.verdict.grade is Grade.WIDE


@pytest.mark.slow
def test_stalls_within_the_promise_are_a_note(tmp_path):
    table, _ = table_and_calibration(tmp_path, rows=7000, change=stalled(0.003))
    said = concern(table, "stalls")
    assert said.grade is Grade.GOOD
    assert "so the bound does not include them" in said.reason
    assert table.document.verdict.grade is Grade.GOOD


def test_slow_batches_of_a_kind_are_no_stalls(tmp_path):
    """The longest iterations take long again: that is the batch, not the host."""
    table, rows = table_and_calibration(
        tmp_path, change=stalled(0.0, factor=4.0, where=lambda ms: ms > np.quantile(ms, 0.97))
    )
    assert find_stalls(table.arrays, rows, 0.99, 0.95) is None


def test_clean_profiles_have_no_stalls():
    for seed in range(3):
        profile = synthetic_profile(seed, fit_points=150, calibrate_points=700, test_points=30)
        table = fit(profile)
        assert find_stalls(table.arrays, held_out(profile, "calibrate", table.arrays.ladders), 0.99, 0.95) is None


@pytest.mark.parametrize("points", [320, 700])
def test_more_coverage_never_costs_less_and_only_what_can_be_certified_has_a_price(points):
    profile = synthetic_profile(1, fit_points=150, calibrate_points=points, test_points=30)
    table = fit(profile)
    found = price(table.arrays, held_out(profile, "calibrate", table.arrays.ladders), 0.95)
    assert found == table.document.price
    assert [one.coverage for one in found] == [0.9, 0.95, 0.98, 0.99, 0.995][: 4 if points < 598 else 5]
    ratios = [one.mean_bound_ratio for one in found]
    assert ratios == sorted(ratios)
    assert 1 < ratios[0] < 1.3
