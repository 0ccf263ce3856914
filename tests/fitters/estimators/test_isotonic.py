"""The projection against scikit-learn in one dimension, against a solver in two; the grid on a monotone truth."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.isotonic import IsotonicRegression

from chunkfit.fitters.estimators.isotonic import grid_of, isotonic
from chunkfit.fitters.folds import MOST_VALUES
from chunkfit.fitters.monotone_projection import isotonic_lines, monotone
from chunkfit.fitters.rows import Rows
from chunkfit.profiler.devices import truth
from chunkfit.tables.batch import Scene
from chunkfit.tables.grid import Ladder

LADDERS = {Scene.MIXED: Ladder((2, 300, 3000))}


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
    chunks = np.arange(1, MOST_VALUES + 2)
    points = np.column_stack([np.ones_like(chunks), np.full_like(chunks, 64), chunks, np.zeros_like(chunks)])
    assert grid_of(Scene.MIXED, points) is None
    assert grid_of(Scene.MIXED, points[:-1]) is not None


def test_a_thin_scatter_is_no_grid():
    """Thirty random points have thirty values on each axis: a grid of 810,000 nodes around nothing."""
    scatter = np.random.default_rng(0).integers(1, 1000, (30, 4))
    assert grid_of(Scene.MIXED, scatter) is None
