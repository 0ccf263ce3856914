"""Backward elimination against non-negative least squares, and columns that say nothing of their own."""

import numpy as np
from scipy.optimize import nnls

from chunkfit.fitters.estimators.signs import independent, without_negatives


def least_squares(y):
    return lambda x: np.linalg.lstsq(x, y, rcond=None)[0]


def test_it_is_non_negative_least_squares_where_no_column_returns():
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
