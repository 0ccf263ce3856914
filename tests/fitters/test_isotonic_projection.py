"""The projection: against scikit-learn in one dimension, against a solver in two; as closure of the expected time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.isotonic import IsotonicRegression

from chunkfit.fitters.isotonic_projection import isotonic_lines, isotonic_projection, monotone


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


def rises(values):
    return all((np.diff(values, axis=axis) >= 0).all() for axis in range(values.ndim))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 50))
def test_closed_expected_rises_everywhere(seed, offset):
    rng = np.random.default_rng(seed)
    values = rng.uniform(0, 10, size=(4, 3, 5))
    measured = rng.random((4, 3, 5)) < 0.6
    closed = isotonic_projection(values, measured, offset)
    assert rises(closed[..., :])
    assert (closed >= 0).all()


def test_what_already_rises_is_left_alone():
    values = np.add.outer(np.array([1.0, 2, 7]), np.array([0.5, 0.6, 9]))
    assert np.allclose(isotonic_projection(values, np.ones((3, 3), dtype=bool), 3.0), values)


def test_an_inversion_is_shared_not_raised():
    """A running maximum alone would answer [1, 4, 4]."""
    closed = isotonic_projection(np.array([1.0, 4.0, 1.0]), np.ones(3, dtype=bool))
    assert np.allclose(closed, [1, 2, 2])


def test_nodes_without_data_do_not_move_nodes_with_data():
    closed = isotonic_projection(np.array([1.0, 100.0, 2.0, 0.1]), np.array([True, False, True, False]))
    assert np.allclose(closed, [1, 2, 2, 2])


def test_one_node_that_is_off_hardly_moves_the_many_that_contradict_it():
    """The mean of both envelopes would answer 2.2 everywhere."""
    closed = isotonic_projection(np.array([5.0, 1, 1, 1, 1, 1, 1, 1, 1]), np.ones(9, dtype=bool))
    assert np.allclose(closed, 5 ** (1 / 9))


def test_a_node_with_data_outweighs_its_neighbours_without():
    measured = np.zeros((6, 6), dtype=bool)
    measured[1, 1] = measured[4, 4] = True
    values = np.full((6, 6), 50.0)
    values[1, 1], values[4, 4] = 2.0, 3.0
    closed = isotonic_projection(values, measured)
    assert np.allclose([closed[1, 1], closed[4, 4]], [2, 3], rtol=0.01)
    assert rises(closed)
