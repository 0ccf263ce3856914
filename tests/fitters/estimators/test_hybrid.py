"""The parts of `hybrid`: columns that never fall, a field that is smooth and goes to 0, a trend that extrapolates."""

import numpy as np

from chunkfit.fitters.estimators.grid_field import fit_field, grid_of
from chunkfit.fitters.estimators.hybrid import MANY, hybrid
from chunkfit.fitters.estimators.trend_features import trend_features
from chunkfit.fitters.folds import MOST_VALUES, value_folds
from chunkfit.fitters.rows import Rows
from chunkfit.profiler.devices import truth
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.law import draw
from chunkfit.tables.batch import Scene
from chunkfit.tables.grid import Ladder

POINTS = draw(SYNTHETIC_DOMAIN, 900, (129,), 5).points
LADDERS = {Scene.MIXED: Ladder((2, 300, 3000))}


def grid(decodes=(1, 2, 4, 8, 16, 32), contexts=(64, 512, 4096), chunks=(16, 64, 256, 512, 1024)):
    n, k, c = (axis.ravel() for axis in np.meshgrid(decodes, contexts, chunks, indexing="ij"))
    return np.column_stack([n, k, c, np.zeros_like(n)])


def rows_at(points, latency):
    return Rows(points, latency, np.arange(len(points)), np.zeros(len(points), dtype=bool))


def test_no_column_of_the_trend_falls_as_a_batch_gains_work():
    assert trend_features(POINTS).shape == (len(POINTS), 101)
    for axis in range(4):
        more = POINTS.copy()
        more[:, axis] += np.where(POINTS[:, axis] > 0, np.random.default_rng(0).integers(1, 300, len(POINTS)), 0)
        assert (trend_features(more) >= trend_features(POINTS)).all()
    assert (trend_features(POINTS) >= 0).all()


def test_a_wave_that_no_trend_has_is_followed_on_a_grid():
    points = grid()
    wave = 1 + 0.08 * np.sin(np.log2(points[:, 2])) * np.cos(np.log2(points[:, 0]))
    cost = truth.base_ms(points) * wave
    made = hybrid(rows_at(points, cost), LADDERS)[Scene.MIXED]
    assert made.coefficients["field"] == 1
    assert np.quantile(np.abs(made.expected.total_ms(points) / cost - 1), 0.9) < 0.02


def test_past_its_data_it_follows_the_trend():
    """Chunks up to 512 tokens seen, 1536 asked for: a tree or a grid would answer with the time of 512."""
    seen = POINTS[(POINTS[:, 0] > 0) & (POINTS[:, 2] > 0) & (POINTS[:, 2] <= 512)]
    made = hybrid(rows_at(seen, truth.base_ms(seen)), LADDERS)[Scene.MIXED]
    asked = np.array([[16, 1000, 1536, 0], [4, 500, 1536, 2000]])
    assert np.abs(made.expected.total_ms(asked) / truth.base_ms(asked) - 1).max() < 0.1


def test_a_field_is_smooth_between_its_values_and_fades_without_data():
    points = grid()
    axes = grid_of(Scene.MIXED, points)
    assert (axes.decodes, axes.prefix_tokens) == ((1, 2, 4, 8, 16, 32), (0,))
    known = points[points[:, 0] <= 4]
    field = fit_field(axes, Scene.MIXED, known, np.full(len(known), 0.1), np.ones(len(known)))
    assert np.abs(field.at(known) - 0.1).max() < 0.01
    flat = fit_field(axes, Scene.MIXED, points, np.zeros(len(points)), np.ones(len(points)))
    assert (flat.at(points) == 0).all()


def test_many_distinct_values_are_no_grid():
    chunks = np.arange(1, MOST_VALUES + 2)
    points = np.column_stack([np.ones_like(chunks), np.full_like(chunks, 64), chunks, np.zeros_like(chunks)])
    assert grid_of(Scene.MIXED, points) is None
    assert grid_of(Scene.MIXED, points[:-1]) is not None


def test_a_thin_scatter_is_no_grid():
    """Thirty random points have thirty values on each axis: a grid of 810,000 nodes around nothing."""
    scatter = np.random.default_rng(0).integers(1, 1000, (30, 4))
    assert grid_of(Scene.MIXED, scatter) is None


def test_the_size_is_chosen_where_a_fold_of_values_is_empty():
    """As it is while selection leaves that fold out: its error is that of the next one, not of nothing."""
    points = draw(SYNTHETIC_DOMAIN, 6000, (), 5).points
    rows = rows_at(points, truth.base_ms(points) * (1 + 0.1 * np.sin(points[:, 2] / 100)))
    learn = rows.where(~value_folds(rows)[0])
    assert len(learn) > MANY
    assert not value_folds(learn)[0].any()
    assert hybrid(learn, LADDERS)[Scene.MIXED].coefficients["trees"] > 0
