"""The closures: order, least change, data before model."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.random_tables import random_arrays, random_table

from chunkfit.tables.batch import Scene
from chunkfit.tables.closure import close_bounds, close_expected, seams
from chunkfit.tables.grid import Surface
from chunkfit.tables.self_check import order_findings


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


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_closed_bounds_keep_the_order_and_never_fall_below_what_they_close(seed):
    arrays = random_arrays(seed)
    rng = np.random.default_rng(seed)
    raw = {
        scene: Surface(rng.integers(0, 500, s.ladder.shape), rng.integers(0, 500, s.base.shape))
        for scene, s in arrays.expected.items()
    }
    closed = close_bounds(arrays.axes, arrays.ladders, arrays.expected, raw)
    for scene, surface in closed.items():
        for part in ("ladder", "base"):
            assert (getattr(surface, part) >= getattr(raw[scene], part)).all()
            assert (getattr(surface, part) >= getattr(arrays.expected[scene], part)).all()
    assert all((seam.shortage <= 0).all() for seam in seams(arrays.axes, arrays.ladders, closed))


def test_a_scene_that_was_not_measured_has_no_seam():
    arrays = random_arrays(1)
    only = {Scene.MIXED: arrays.bound[Scene.MIXED], Scene.DECODE: arrays.bound[Scene.DECODE]}
    assert [seam.lower for seam in seams(arrays.axes, arrays.ladders, only)] == [Scene.DECODE]


def test_self_check_names_a_seam_that_is_short():
    for seed in range(50):
        arrays = random_table(seed).arrays
        mixed = arrays.bound[Scene.MIXED]
        arrays.bound[Scene.MIXED] = Surface(
            np.zeros_like(mixed.ladder), np.zeros_like(mixed.base)
        )  # below every bound of a batch with less work
        findings = [f for f in order_findings(arrays) if f.where.startswith("seam")]
        if arrays.bound[Scene.DECODE].ladder.max() > 0:
            assert any("seam decode -> mixed at (n " in f.where for f in findings)
