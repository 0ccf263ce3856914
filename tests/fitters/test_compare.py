"""Comparing tables and profiles: what is drift, what is not, and where."""

from dataclasses import replace

import numpy as np
import pytest
from support.fitting import fit
from support.random_tables import random_table

from chunkfit import CostTable, Profile
from chunkfit.files.errors import UsageError
from chunkfit.fitters.compare import compare
from chunkfit.profiler.synthetic_profile import synthetic_profile
from chunkfit.tables.document import sealed
from chunkfit.tables.fingerprint import Severity

SIZES = {"fit_points": 120, "fit_repeats": 3, "calibrate_points": 300, "test_points": 60}


@pytest.fixture(scope="module")
def profile():
    return synthetic_profile(0, **SIZES)


@pytest.fixture(scope="module")
def table(profile):
    return fit(profile)


def slower(profile, factor, where=None):
    mask = np.ones(len(profile), bool) if where is None else where(profile.columns)
    latency = profile.columns["latency_ms"] * np.where(mask, factor, 1.0)
    return Profile(profile.meta, {**profile.columns, "latency_ms": latency}, profile.source)


def with_scenes(table, expected):
    """The table with other expected times; bounds are twice the old ones where those would be below."""

    def part(stored):
        ms = expected(stored.expected_ms, stored.bound_ms)
        bound = stored.bound_ms if all(e <= u for e, u in zip(ms, stored.bound_ms, strict=True)) else None
        return stored.model_copy(
            update={"expected_ms": ms, "bound_ms": bound or [2 * u for u in stored.bound_ms]},
        )

    scenes = {
        scene: stored.model_copy(update={"ladder": part(stored.ladder), "base": part(stored.base)})
        for scene, stored in table.document.scenes.items()
    }
    return CostTable(sealed(table.document.model_copy(update={"scenes": scenes})))


def by_scene(found):
    return {scene.scene.value: scene for scene in found.scenes}


def test_the_same_is_the_same(profile, table):
    for side in (profile, table):
        found = compare(side, side, 0.0)
        assert found.reasons == ()
        assert all((scene.median, scene.p90, scene.worst) == (1, 0, 1) for scene in found.scenes)
        assert [scene.scene.value for scene in found.scenes] == ["decode", "prefill", "mixed"]
        assert not any(found.fingerprint.values())


def test_another_session_of_the_same_device_is_no_drift(profile, table):
    other = synthetic_profile(1, **SIZES)
    assert compare(table, other, 0.05).reasons == ()
    assert compare(table, fit(other), 0.05).reasons == ()


@pytest.mark.parametrize("factor", [1.08, 0.9])
def test_a_device_of_another_speed_is_drift_in_every_scene(profile, table, factor):
    changed = slower(profile, factor)
    for left in (profile, table):
        found = compare(left, changed, 0.05)
        assert [reason.split(":")[0] for reason in found.reasons[:3]] == ["decode", "prefill", "mixed"]
        assert all(scene.median == pytest.approx(factor, rel=0.02) for scene in found.scenes)
    assert compare(profile, changed, 0.11).reasons == ()


def test_a_table_of_twice_the_times_is_drift(table):
    found = compare(table, with_scenes(table, lambda ms, _: [2 * x for x in ms]), 0.05)
    assert len(found.reasons) == 3
    assert all((scene.median, scene.p90, scene.worst) == (2, 1, 2) for scene in found.scenes)


def test_a_corner_that_became_slower_is_drift_though_the_median_stands(profile, table):
    def long_chunks(columns):
        return columns["chunk_tokens"] > 1024

    found = compare(profile, slower(profile, 1.5, long_chunks), 0.05)
    scenes = by_scene(found)
    assert {reason.split(":")[0] for reason in found.reasons} == {"prefill", "mixed"}
    assert scenes["decode"].p90 == 0
    assert scenes["prefill"].median == 1
    assert scenes["prefill"].worst == pytest.approx(1.5)
    assert scenes["prefill"].worst_point[2] > 1024
    assert scenes["prefill"].p90_margins is None
    under = by_scene(compare(table, slower(profile, 1.5, long_chunks), 0.05))
    assert under["prefill"].worst_point[2] > 1024


def test_differences_are_counted_in_margins(table):
    """Expected times raised to the bound are one margin away, and none is beyond it."""
    raised = with_scenes(table, lambda _, bound_ms: bound_ms)
    for scene in compare(table, raised, 1.0).scenes:
        assert scene.p90_margins == pytest.approx(1)
        assert scene.beyond_margins == 0
        assert scene.median > 1
    above = with_scenes(table, lambda _, bound_ms: [2 * x for x in bound_ms])
    assert all(scene.beyond_margins == 1 for scene in compare(table, above, 1.0).scenes)


def test_the_bound_of_a_slower_device_does_not_hold(profile, table):
    fresh = compare(table, synthetic_profile(2, **SIZES), 0.05)
    assert fresh.coverage.rows == 120 + 300 + 60
    assert fresh.coverage.coverage > 0.97
    found = compare(table, slower(synthetic_profile(2, **SIZES), 1.5), 0.7)
    assert found.coverage.high < found.promised == 0.99
    assert [reason.split(" iterations")[0] for reason in found.reasons] == [
        f"the bound covers {found.coverage.covered} of {found.coverage.rows}"
    ]


def test_means_say_nothing_about_the_bound(profile, table):
    means = replace(profile, meta=profile.meta.model_copy(update={"aggregation": "mean:20"}))
    found = compare(table, means, 0.05)
    assert (found.coverage, found.promised) == (None, None)
    assert found.fingerprint[Severity.WARN] == [("aggregation", "iteration", "mean:20")]
    assert found.reasons == ()


def test_another_device_is_drift_whatever_the_figures_and_a_new_driver_is_not(profile, table):
    def of(**facts):
        fingerprint = profile.meta.fingerprint.model_copy(update=facts)
        return replace(profile, meta=profile.meta.model_copy(update={"fingerprint": fingerprint}))

    found = compare(table, of(device_name="another", driver="570"), 0.05)
    assert found.reasons == ("measured on different things: device_name",)
    assert found.scenes
    found = compare(table, of(driver="570"), 0.05)
    assert (found.reasons, found.fingerprint[Severity.WARN]) == ((), [("driver", None, "570")])


def test_only_what_both_measured_is_compared(profile, table):
    part = Profile(profile.meta, {name: column[:600] for name, column in profile.columns.items()}, "part")
    found = compare(profile, part, 0.05)
    assert sum(scene.points for scene in found.scenes) < len(profile)
    small = table.document.model_copy(
        update={"scenes": {s: v for s, v in table.document.scenes.items() if s.value == "decode"}}
    )
    alone = compare(CostTable(sealed(small)), table, 0.05)
    assert [scene.scene.value for scene in alone.scenes] == ["decode"]
    assert "nodes that either measured lie in both domains" in alone.basis


def test_too_little_in_common_is_refused(profile, table):
    few = Profile(profile.meta, {name: column[:5] for name, column in profile.columns.items()}, "few")
    for left in (profile, table):
        with pytest.raises(UsageError, match=r"points in common .* at least 30"):
            compare(left, few, 0.05)
    with pytest.raises(UsageError, match="expected the table first"):
        compare(profile, table, 0.05)


def test_tables_that_hold_zeros_compare():
    found = compare(random_table(4), random_table(7), 0.05)
    assert found.reasons
    assert all(np.isfinite([s.median, s.p90, s.p90_margins, s.worst]).all() for s in found.scenes)


@pytest.fixture(scope="module")
def noisy():
    """A machine whose iterations vary by 30%, and its table."""
    quiet = synthetic_profile(8, fit_points=300, calibrate_points=320, test_points=320)
    factors = np.random.default_rng(1).lognormal(0, 0.3, len(quiet))
    shaken = Profile(quiet.meta, {**quiet.columns, "latency_ms": quiet.columns["latency_ms"] * factors}, "shaken")
    return shaken, fit(shaken)


def test_a_noisy_machine_against_its_own_table_is_too_noisy_to_say(noisy):
    profile, table = noisy
    found = compare(table, profile, 0.05)
    assert found.reasons == ()
    assert len(found.noisy) == 3
    assert "the table's own test errors reach" in found.noisy[0]


def test_a_machine_that_became_slower_by_more_than_its_noise_is_drift_all_the_same(noisy):
    profile, table = noisy
    slower = Profile(profile.meta, {**profile.columns, "latency_ms": 1.3 * profile.columns["latency_ms"]}, "slower")
    assert any("differ by" in reason for reason in compare(table, slower, 0.05).reasons)


def test_two_unknown_devices_are_not_the_same(profile, table):
    unknown = profile.meta.fingerprint.model_copy(update={"device_name": None, "device_kind": None})
    nameless = Profile(profile.meta.model_copy(update={"fingerprint": unknown}), profile.columns, "log")
    assert {"device_name", "device_kind"} <= set(compare(nameless, nameless, 0.05).unknown)
    assert "device_name" not in compare(table, profile, 0.05).unknown
