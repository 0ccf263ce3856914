"""A fit beside other work: BLAS's threads would wait for each other."""

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from chunkfit.fitters.estimators.registry import ESTIMATORS
from chunkfit.fitters.fit import fit
from chunkfit.fitters.one_thread import one_blas_thread
from chunkfit.fitters.predictor import TablePredictor
from chunkfit.profiler.synthetic_profile import synthetic_profile

SMALL = {"fit_points": 150, "fit_repeats": 1, "calibrate_points": 320, "test_points": 50}


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture
def seen(monkeypatch):
    """BLAS threads whenever the estimator is asked, two before."""
    seen, estimator = [], ESTIMATORS["linear"]

    def watched(rows, ladders):
        seen.append(blas_threads())
        return estimator(rows, ladders)

    monkeypatch.setitem(ESTIMATORS, "linear", watched)
    with threadpool_limits(limits=2, user_api="blas"):
        yield seen
        assert blas_threads() == {2}


def test_a_fit_and_what_chooses_points_have_one_thread_and_give_the_others_back(seen):
    profile = synthetic_profile(0, **SMALL)
    fit(profile, fitter="linear")
    part = profile.select("fit", "point")
    TablePredictor(profile.meta.domain, profile.meta.step_totals, "linear")(
        part.points(), part.columns["latency_ms"], part.points()[:5]
    )
    assert len(seen) >= 2
    assert all(threads == {1} for threads in seen)


def test_an_error_gives_them_back_too():
    @one_blas_thread
    def fails():
        raise ValueError(blas_threads())

    with threadpool_limits(limits=2, user_api="blas"):
        with pytest.raises(ValueError, match=r"\{1\}"):
            fails()
        assert blas_threads() == {2}
