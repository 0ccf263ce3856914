"""Level shifts, two modes and coordinates that were not varied apart: found where planted, not on clean residuals."""

import numpy as np
import pytest
from support.fitting import fit
from support.synthetic_log import logged

from chunkfit.fitters.regimes import level_shift, two_modes
from chunkfit.tables.verdict import Grade


def residuals(kind, rows, seed):
    rng = np.random.default_rng(seed)
    noise = rng.normal(0, 0.01, rows)
    if kind == "tail":
        return noise + np.where(rng.random(rows) < 0.02, rng.exponential(0.1, rows), 0)
    if kind == "heavy":
        return 0.02 * rng.standard_t(3, rows)
    if kind == "slow swings":
        swing = np.zeros(rows)
        for i in range(1, rows):
            swing[i] = 0.8 * swing[i - 1] + noise[i]
        return swing + rng.normal(0, 0.01, rows)
    return {"normal": noise, "skewed": rng.exponential(0.05, rows), "uniform": rng.uniform(-0.05, 0.05, rows)}[kind]


@pytest.mark.parametrize("kind", ["normal", "tail", "heavy", "slow swings", "skewed", "uniform"])
def test_clean_residuals_raise_no_alarm(kind):
    found = [(level_shift(r), two_modes(r)) for seed in range(60) for r in [residuals(kind, 400, seed)]]
    assert sum(shift is not None for shift, _ in found) <= 1
    assert sum(modes is not None for _, modes in found) <= 1


@pytest.mark.parametrize(("share", "factor"), [(0.27, 1 / 1.42), (0.5, 1.3), (1 / 3, 0.2), (0.85, 1.05)])
@pytest.mark.parametrize("rows", [600, 3000])
def test_a_level_shift_is_found_with_its_place_and_size(rows, share, factor):
    values = residuals("tail", rows, 1) + np.where(np.arange(rows) >= share * rows, np.log(factor), 0)
    found = level_shift(values)
    assert found.row == pytest.approx(share * rows, abs=0.02 * rows)
    assert found.ratio == pytest.approx(factor, rel=0.01)


@pytest.mark.parametrize(("share", "factor"), [(0.4, 1.2), (0.2, 1.06), (0.7, 1.5)])
def test_two_modes_are_found_with_their_share_and_size(share, factor):
    values = residuals("tail", 2000, 2) + np.where(np.random.default_rng(3).random(2000) < share, np.log(factor), 0)
    found = two_modes(values)
    assert found.share == pytest.approx(share, abs=0.05)
    assert found.ratio == pytest.approx(factor, rel=0.02)


def concern(profile, name):
    verdict = fit(profile).document.verdict
    return verdict.grade, next((one for one in verdict.concerns if one.name == name), None)


def test_a_log_with_a_warm_up_must_not_be_used_and_a_cut_log_is_good(tmp_path):
    warm = lambda ms: np.where(np.arange(len(ms)) < len(ms) / 3, 5 * ms, ms)  # noqa: E731
    grade, found = concern(logged(tmp_path, rows=1600, change=warm), "level_shift")
    assert grade is Grade.DO_NOT_USE
    assert "(at 33%) on iterations take 0.2" in found.reason
    assert "--from 33%" in found.advice
    grade, found = concern(logged(tmp_path, rows=2500, change=warm, since="34%"), "level_shift")
    assert (grade, found) == (Grade.GOOD, None)


def test_a_clean_log_has_one_regime(tmp_path):
    grade, _ = concern(logged(tmp_path, rows=1600), "level_shift")
    assert grade is Grade.GOOD


def test_decodes_and_contexts_that_follow_from_each_other_are_named(tmp_path):
    """A full KV cache: the more decodes, the shorter their contexts."""

    def full(points):
        return (points[:, 0] == 0) | (np.abs(np.log(np.maximum(points[:, 0] * points[:, 1], 1) / 16_000)) < 0.12)

    grade, found = concern(logged(tmp_path, rows=1900, keep=full, drawn=30), "confounded")
    assert grade is not Grade.GOOD
    assert "never varied apart" in found.reason


def test_a_log_whose_batches_change_over_time_has_no_level_shift(tmp_path):
    """A third of the log serves few decodes, which the calibration session never sees: those are answered by order."""

    def sort(points):
        few = (points[:, 0] > 0) & (points[:, 0] < 4)
        order = np.argsort(~few, kind="stable")
        points[:] = points[order]
        return np.ones(len(points), bool)

    profile = logged(tmp_path, rows=1600, keep=sort, drawn=1)
    later = profile.select("calibrate").columns["decodes"]
    assert not ((later > 0) & (later < 4)).any()
    grade, found = concern(profile, "level_shift")
    assert (grade is Grade.DO_NOT_USE, found) == (False, None)
