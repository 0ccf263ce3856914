"""The projection against scikit-learn in one dimension, against a solver in two."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.isotonic import IsotonicRegression

from chunkfit.fitters.monotone_projection import isotonic_lines, monotone


@pytest.mark.parametrize("seed", range(5))
def test_one_axis_is_scikit_learns_isotonic_regression(seed):
    rng = np.random.default_rng(seed)
    values, weights = rng.normal(size=(20, 30)) + np.linspace(0, 2, 30), rng.uniform(0.01, 5, (20, 30))
    ours = isotonic_lines(values, weights)
    for line, weight, mine in zip(values, weights, ours, strict=True):
        assert np.allclose(mine, IsotonicRegression().fit_transform(np.arange(30), line, sample_weight=weight))


def test_two_axes_are_the_least_squares_under_every_order():
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=(3, 4)), rng.uniform(0.5, 2, (3, 4))
    ours = monotone(values, weights)
    order = [{"type": "ineq", "fun": lambda x, a=axis: np.diff(x.reshape(3, 4), axis=a).ravel()} for axis in (0, 1)]
    solved = minimize(
        lambda x: (weights.ravel() * (x - values.ravel()) ** 2).sum(),
        np.zeros(12),
        constraints=order,
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert np.allclose(ours, solved.x.reshape(3, 4), atol=1e-4)
    assert all((np.diff(ours, axis=axis) >= -1e-6).all() for axis in (0, 1))


def test_what_is_in_order_stays():
    values = np.add.outer(np.arange(4.0), np.arange(5.0) ** 2)
    assert np.allclose(monotone(values, np.ones((4, 5))), values)
