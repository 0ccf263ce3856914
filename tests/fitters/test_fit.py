"""What fit refuses, and what a table keeps of how it was made."""

from dataclasses import replace

import numpy as np
import pytest
from support.fitting import fit

from chunkfit import Batch, CostTable, Profile
from chunkfit.files.errors import CertificationError, OutOfDomainError, UsageError
from chunkfit.fitters.estimators.registry import ESTIMATORS
from chunkfit.profiler.synthetic_profile import synthetic_profile


@pytest.fixture(scope="module")
def profile() -> Profile:
    return synthetic_profile(3, fit_points=300, calibrate_points=320, test_points=300)


def rows(profile, mask):
    return Profile(profile.meta, {name: column[mask] for name, column in profile.columns.items()})


@pytest.mark.parametrize("aggregation", ["mean:20", "unknown"])
def test_a_p99_needs_single_iterations(profile, aggregation):
    meta = profile.meta.model_copy(update={"aggregation": aggregation})
    with pytest.raises(CertificationError, match=f"aggregation is '{aggregation}'.*'iteration'"):
        fit(replace(profile, meta=meta))


@pytest.mark.parametrize("session", ["fit", "calibrate", "test"])
def test_a_missing_session_is_named(profile, session):
    with pytest.raises(CertificationError, match=f"no rows of session '{session}'"):
        fit(rows(profile, profile.columns["session"] != session))


def test_too_few_fit_points_are_counted(profile):
    few = (profile.columns["session"] != "fit") | (profile.columns["point_id"] % 100 == 0)
    with pytest.raises(CertificationError, match=r"session fit: decode 2, mixed 1 points; expected at least 5"):
        fit(rows(profile, few))


def test_an_unknown_fitter_lists_the_known(profile):
    with pytest.raises(UsageError, match="scene_experts"):
        fit(profile, fitter="forest")
    assert "scene_experts" in ESTIMATORS


def test_a_scene_that_was_not_measured_is_refused_by_the_table(profile):
    table = fit(rows(profile, profile.columns["scene"] != "prefill"), coverage=0.95)
    assert table.bound_ms(Batch.of(4, 100, 64)) > 0
    with pytest.raises(OutOfDomainError, match="scene prefill was not measured; the table has decode, mixed"):
        table.bound_ms(Batch.of(0, 0, 64))


def test_fit_is_deterministic_and_survives_the_file(profile, tmp_path):
    table = fit(profile)
    table.save(tmp_path / "table.json")
    assert CostTable.load(tmp_path / "table.json").document == fit(profile).document


def test_a_p99_of_a_stalling_device_is_larger(profile):
    """5% of iterations twice as long: the bound follows, the expected time hardly moves."""
    rng = np.random.default_rng(0)
    latency = profile.columns["latency_ms"] * np.where(rng.random(len(profile)) < 0.05, 2.0, 1.0)
    stalling = fit(Profile(profile.meta, {**profile.columns, "latency_ms": latency}))
    calm, batch = fit(profile), Batch.of(16, 1000, 256, 500)
    assert stalling.bound_ms(batch) > 1.6 * calm.bound_ms(batch)
    assert stalling.expected_ms(batch) == pytest.approx(calm.expected_ms(batch), rel=0.03)


def test_without_anchors_drift_stays_unknown(profile):
    table = fit(rows(profile, profile.columns["role"] != "anchor"))
    assert table.document.factors.session_drift is None
    part = next(part for part in table.document.margin if part.name == "session_drift")
    assert "0 points shared" in part.detail


def test_a_shift_between_sessions_centres_expected_and_raises_the_bound(profile):
    """Calibration 6% slower than fit: expected goes half the way, the bound carries the shift as a factor."""
    slow = np.where(profile.columns["session"] == "calibrate", 1.06, 1.0)
    shifted = Profile(profile.meta, {**profile.columns, "latency_ms": profile.columns["latency_ms"] * slow})
    known, unknown = fit(shifted), fit(rows(shifted, shifted.columns["role"] != "anchor"))
    factor = known.document.factors.session_drift
    assert factor == pytest.approx(1.06 * fit(profile).document.factors.session_drift, rel=0.02)
    batch = Batch.of(16, 1000, 256, 500)
    assert known.bound_ms(batch) / unknown.bound_ms(batch) == pytest.approx(factor, rel=0.005)
    assert known.expected_ms(batch) / unknown.expected_ms(batch) == pytest.approx(factor**0.5, rel=0.005)


def test_the_margin_says_what_was_not_measured(profile):
    parts = {part.name: part for part in fit(rows(profile, profile.columns["layout"] == "")).document.margin}
    assert parts["unequal_contexts"].factor is None
    assert parts["several_chunks"].factor is None
    assert parts["several_chunks"].detail == "not measured: 0 pairs of equal totals; needs 29"
    assert "order statistic" in parts["noise"].detail
