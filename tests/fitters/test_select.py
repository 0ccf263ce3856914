"""Folds are whole points and whole bands; the best held-out model wins, ties go to the simpler, failures are listed."""

from dataclasses import replace

import numpy as np
import pytest

from chunkfit.files.errors import FitError, UsageError
from chunkfit.fitters.cross_validation import MOST_SESSION_FOLDS, point_folds, session_folds
from chunkfit.fitters.estimators.estimator import SceneModel
from chunkfit.fitters.estimators.registry import ESTIMATORS, estimators
from chunkfit.fitters.fit import fit
from chunkfit.fitters.knots import ladder_for
from chunkfit.fitters.rows import Rows, rows_of
from chunkfit.fitters.select import select
from chunkfit.profiler.devices import truth
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.profile import concat
from chunkfit.profiler.synthetic_profile import synthetic_profile
from chunkfit.tables.batch import SCENES

LADDERS = {scene: ladder_for(SYNTHETIC_DOMAIN, scene, (129,)) for scene in SCENES}


@pytest.fixture(scope="module")
def rows() -> Rows:
    return rows_of(synthetic_profile(0, fit_points=300, calibrate_points=3, test_points=3), "fit")


class Off:
    """The truth times a factor."""

    def __init__(self, factor):
        self.factor = factor

    def total_ms(self, points):
        return self.factor * truth.base_ms(points)


def off_by(factor):
    return lambda rows, ladders: {scene: SceneModel(Off(factor), {}) for scene in ladders}


def failing(rows, ladders):
    raise FitError("these rows are not for me")


def lacking(rows, ladders):
    raise ModuleNotFoundError("No module named 'forest'", name="forest")


def test_a_point_is_held_out_once_and_whole(rows):
    held = np.stack(point_folds(rows))
    assert (held.sum(axis=0) == 1).all()
    for fold in held:
        assert not set(rows.point_id[fold]) & set(rows.point_id[~fold])
        assert len(set(rows.point_id[fold])) == 75


def test_whole_sessions_are_held_out_of_joined_profiles(rows):
    assert session_folds(rows) == []
    joined = replace(rows, joined=(75, 150))  # as if the points came from three sessions
    held = np.stack(session_folds(joined))
    assert held.shape[0] == 3
    assert (held.sum(axis=0) == 1).all()
    assert [set((joined.point_id[fold] // 75).clip(max=2).tolist()) for fold in held] == [{0}, {1}, {2}]
    many = replace(rows, joined=tuple(range(30, 300, 30)))
    assert len(session_folds(many)) == MOST_SESSION_FOLDS
    few = joined.where(joined.point_id < 75)
    assert session_folds(few) == []


def test_an_estimator_that_knows_its_sessions_alone_loses_by_them(rows):
    """It tells a session by its points: near the truth within, 30% off in one that it never saw."""

    class Remembers:
        def __init__(self, seen):
            self.seen = np.unique(seen.point_id // 75)

        def total_ms(self, points):
            known = {tuple(p): i for p, i in zip(rows.points.tolist(), rows.point_id.tolist(), strict=True)}
            seen = np.isin([known[tuple(point)] // 75 for point in points.tolist()], self.seen)
            return truth.base_ms(points) * np.where(seen, 1.0, 1.3)

    def remembers(seen, ladders):
        return {scene: SceneModel(Remembers(seen), {}) for scene in ladders}

    competing = {"remembers": remembers, "general": off_by(1.06)}
    assert select(competing, rows, LADDERS).winner.name == "remembers"
    made = select(competing, replace(rows, joined=(75, 150, 225)), LADDERS)
    assert made.winner.name == "general"
    assert list(made.candidates[0].expected) == ["points", "values", "sessions"]
    assert made.candidates[0].expected["sessions"] > 10


def test_rows_of_two_profiles_are_scored_by_sessions_too():
    profiles = [synthetic_profile(seed, fit_points=90, calibrate_points=3, test_points=3) for seed in (1, 2)]
    made = select(estimators("linear"), rows_of(concat(profiles), "fit"), LADDERS)
    assert list(made.winner.document()["pinball_50_percent"]) == ["points", "values", "sessions"]


def test_the_smallest_loss_wins_and_every_candidate_is_listed(rows):
    made = select({"no": failing, "none": lacking, "far": off_by(1.2), "near": off_by(1.01)}, rows, LADDERS)
    assert made.winner.name == "near"
    assert "the next best far" in made.why
    reasons = {candidate.name: candidate.reason for candidate in made.candidates}
    assert reasons["no"] == "these rows are not for me"
    assert reasons["none"] == "forest is not installed: pip install 'chunkfit[fit]'"
    assert (reasons["far"], reasons["near"]) == (None, None)


def test_a_tie_goes_to_the_simpler(rows):
    made = select({"simple": off_by(1.0101), "good": off_by(1.01)}, rows, LADDERS)
    assert made.winner.name == "simple"
    assert made.winner.loss > made.candidates[1].loss
    assert "within 2% of good" in made.why
    assert "and simpler" in made.why


def test_when_nothing_can_be_fitted_every_reason_is_in_the_error(rows):
    with pytest.raises(FitError, match=r"no: these rows are not for me; none: forest is not installed"):
        select({"no": failing, "none": lacking}, rows, LADDERS)
    with pytest.raises(FitError, match=r"^these rows are not for me"):
        select({"no": failing}, rows, LADDERS)


def test_names_of_the_registry():
    assert list(estimators("scene-experts")) == ["scene_experts"]
    assert list(estimators("auto")) == list(ESTIMATORS)
    with pytest.raises(UsageError, match="expected auto or one of: roofline, linear, quantile"):
        estimators("forest")


def test_the_table_keeps_the_scores_and_the_reason():
    profile = synthetic_profile(3, fit_points=300, calibrate_points=320, test_points=300)
    table = fit(profile, fitter="auto")
    stored = table.document.fitter.options["selection"]
    assert [candidate["name"] for candidate in stored["candidates"]] == list(ESTIMATORS)
    assert table.document.fitter.name in stored["why"]
    assert "give --microbench FILE" in stored["candidates"][0]["reason"]
    losses = {
        c["name"]: np.mean(list(c["pinball_50_percent"].values())) for c in stored["candidates"] if c["reason"] is None
    }
    assert table.document.fitter.name in ("scene_experts", "hybrid")
    assert losses[table.document.fitter.name] * 0.98 <= min(losses.values())
