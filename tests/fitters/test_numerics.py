"""The shared numerical methods: what they solve, what they do with outliers, what their errors say, BLAS's threads."""

import numpy as np
import pytest
from scipy.optimize import nnls
from threadpoolctl import threadpool_info, threadpool_limits

from chunkfit.files.errors import FitError
from chunkfit.fitters import numerics
from chunkfit.fitters.estimators.registry import ESTIMATORS
from chunkfit.fitters.fit import fit
from chunkfit.fitters.numerics import independent, non_negative, one_blas_thread, robust_nnls, without_negatives
from chunkfit.fitters.predictor import TablePredictor
from chunkfit.profiler.synthetic_profile import synthetic_profile

SMALL = {"fit_points": 150, "fit_repeats": 1, "calibrate_points": 320, "test_points": 50}


def test_it_recovers_and_keeps_to_zero():
    x = np.random.default_rng(0).uniform(size=(50, 3))
    assert np.allclose(non_negative(x, x @ [2.0, 0.0, 5.0]), [2, 0, 5])
    assert (non_negative(x, -x.sum(axis=1)) == 0).all()


def test_a_solver_that_gives_up_is_an_error_of_ours(monkeypatch):
    def gives_up(left, right, maxiter):
        raise RuntimeError(f"Maximum number of iterations reached: {maxiter}")

    monkeypatch.setattr(numerics, "nnls", gives_up)
    with pytest.raises(FitError, match=r"3 columns on 50 rows: Maximum .* 90; .*another --fitter"):
        non_negative(np.random.default_rng(0).uniform(size=(50, 3)), np.ones(50))


def test_robust_weights_do_not_follow_stalled_rows():
    rng = np.random.default_rng(0)
    columns = np.column_stack([np.ones(200), rng.uniform(0, 1e6, 200)])
    latency = columns @ [2.0, 1e-5]
    latency[::20] *= 30
    assert robust_nnls(columns / latency[:, None]) == pytest.approx([2.0, 1e-5], rel=0.01)
    heavy = np.where(np.arange(200) % 20, 1.0, 1e-9)
    assert robust_nnls(columns / latency[:, None], counts=heavy, rounds=0) == pytest.approx([2.0, 1e-5], rel=1e-6)


def least_squares(y):
    return lambda x: np.linalg.lstsq(x, y, rcond=None)[0]


def test_elimination_is_non_negative_least_squares_where_no_column_returns():
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = rng.uniform(size=(60, 5)) * [1, 10, 1e3, 1e6, 0.01]
        y = x @ (np.array([3.0, 0, 2, 0, 1]) / x.max(axis=0)) + 0.05 * rng.normal(size=60)
        ours = without_negatives(least_squares(y), x)
        assert (ours >= 0).all()
        best = nnls(x / x.max(axis=0), y)[0] / x.max(axis=0)
        assert np.linalg.norm(x @ ours - y) <= 1.01 * np.linalg.norm(x @ best - y)


def test_dependent_and_empty_columns_get_zero():
    rng = np.random.default_rng(1)
    a, b = rng.uniform(1, 2, 40), rng.uniform(1, 2, 40)
    x = np.column_stack([a, np.zeros(40), b, 2 * a, a + b, a * b])
    assert independent(x) == [0, 2, 5]
    found = without_negatives(least_squares(3 * a + 5 * b), x)
    assert np.allclose(found, [3, 0, 5, 0, 0, 0], atol=1e-6)


def test_nothing_but_falling_columns_leaves_nothing():
    x = np.column_stack([np.linspace(1, 2, 10)])
    assert (without_negatives(least_squares(-x[:, 0]), x) == 0).all()


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
