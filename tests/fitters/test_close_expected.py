"""The expected time's closure: it rises everywhere, moves little, and who has no data moves nobody."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkfit.fitters.close_expected import close_expected


def rises(values):
    return all((np.diff(values, axis=axis) >= 0).all() for axis in range(values.ndim))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 50))
def test_closed_expected_rises_everywhere(seed, offset):
    rng = np.random.default_rng(seed)
    values = rng.uniform(0, 10, size=(4, 3, 5))
    measured = rng.random((4, 3, 5)) < 0.6
    closed = close_expected(values, measured, offset)
    assert rises(closed[..., :])
    assert (closed >= 0).all()


def test_what_already_rises_is_left_alone():
    values = np.add.outer(np.array([1.0, 2, 7]), np.array([0.5, 0.6, 9]))
    assert np.allclose(close_expected(values, np.ones((3, 3), dtype=bool), 3.0), values)


def test_an_inversion_is_shared_not_raised():
    """A running maximum alone would answer [1, 4, 4]."""
    closed = close_expected(np.array([1.0, 4.0, 1.0]), np.ones(3, dtype=bool))
    assert np.allclose(closed, [1, 2, 2])


def test_nodes_without_data_do_not_move_nodes_with_data():
    closed = close_expected(np.array([1.0, 100.0, 2.0, 0.1]), np.array([True, False, True, False]))
    assert np.allclose(closed, [1, 2, 2, 2])


def test_one_node_that_is_off_hardly_moves_the_many_that_contradict_it():
    """The mean of both envelopes would answer 2.2 everywhere."""
    closed = close_expected(np.array([5.0, 1, 1, 1, 1, 1, 1, 1, 1]), np.ones(9, dtype=bool))
    assert np.allclose(closed, 5 ** (1 / 9))


def test_a_node_with_data_outweighs_its_neighbours_without():
    measured = np.zeros((6, 6), dtype=bool)
    measured[1, 1] = measured[4, 4] = True
    values = np.full((6, 6), 50.0)
    values[1, 1], values[4, 4] = 2.0, 3.0
    closed = close_expected(values, measured)
    assert np.allclose([closed[1, 1], closed[4, 4]], [2, 3], rtol=0.01)
    assert rises(closed)
