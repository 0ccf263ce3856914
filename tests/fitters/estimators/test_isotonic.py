"""The grid on a monotone truth."""

import numpy as np
import pytest

from chunkfit.fitters.cross_validation import MOST_GRID_VALUES
from chunkfit.fitters.estimators.isotonic import grid_of, isotonic
from chunkfit.fitters.rows import Rows
from chunkfit.profiler.devices import truth
from chunkfit.tables.batch import Scene
from chunkfit.tables.grid import Ladder

LADDERS = {Scene.MIXED: Ladder((2, 300, 3000))}


def grid_rows(cost, repeats=5, noise=0.01, keep=1.0):
    axes = ((1, 4, 16, 64), (64, 512, 4096), (0, 512, 8192), (16, 128, 256, 512, 1024))
    n, k, u, c = (axis.ravel() for axis in np.meshgrid(*axes, indexing="ij"))
    points = np.column_stack([n, k, c, u])
    rng = np.random.default_rng(0)
    points = points[rng.random(len(points)) < keep]
    ids = np.repeat(np.arange(len(points)), repeats)
    latency = cost(points[ids]) * np.exp(noise * rng.standard_normal(len(ids)))
    return Rows(points[ids], latency, ids, np.zeros(len(ids), dtype=bool))


def test_a_monotone_truth_on_a_grid_is_found():
    rows = grid_rows(truth.base_ms)
    model = isotonic(rows, LADDERS)[Scene.MIXED]
    assert np.abs(model.expected.total_ms(rows.points) / truth.base_ms(rows.points) - 1).max() < 0.02


def test_cells_without_points_lie_between_their_neighbours():
    thin = grid_rows(truth.base_ms, keep=0.6)
    points = grid_rows(truth.base_ms).points
    model = isotonic(thin, LADDERS)[Scene.MIXED].expected
    for axis in range(4):
        values = np.unique(points[:, axis])
        inner = points[points[:, axis] < values[-1]]
        more = inner.copy()
        more[:, axis] = values[np.searchsorted(values, inner[:, axis]) + 1]
        assert (model.total_ms(more) >= model.total_ms(inner) - 1e-9).all()


def test_an_inversion_of_the_data_is_pooled():
    """Chunks of 256 measured 10% slower than of 512: both at their mean, nothing else moved."""
    slow = grid_rows(lambda p: np.where(p[:, 2] == 256, 11.0, np.where(p[:, 2] == 512, 10.0, 0.02 * p[:, 2])), noise=0)
    model = isotonic(slow, LADDERS)[Scene.MIXED].expected
    at = model.total_ms(np.array([[4, 512, c, 512] for c in (128, 256, 512, 1024)]))
    assert at == pytest.approx([2.56, 110**0.5, 110**0.5, 20.48], rel=1e-4)


def test_many_distinct_values_are_no_grid():
    chunks = np.arange(1, MOST_GRID_VALUES + 2)
    points = np.column_stack([np.ones_like(chunks), np.full_like(chunks, 64), chunks, np.zeros_like(chunks)])
    assert grid_of(Scene.MIXED, points) is None
    assert grid_of(Scene.MIXED, points[:-1]) is not None


def test_a_thin_scatter_is_no_grid():
    """Thirty random points have thirty values on each axis: a grid of 810,000 nodes around nothing."""
    scatter = np.random.default_rng(0).integers(1, 1000, (30, 4))
    assert grid_of(Scene.MIXED, scatter) is None
