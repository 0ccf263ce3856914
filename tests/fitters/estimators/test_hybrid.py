"""The parts of `hybrid`: columns that never fall, a trend that extrapolates, a residual where it helps."""

import numpy as np
import pytest

from chunkfit.fitters.estimators.features import few_trend_features, trend_features
from chunkfit.fitters.estimators.hybrid import hybrid
from chunkfit.fitters.rows import Rows
from chunkfit.profiler.devices import truth
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.sampling import draw
from chunkfit.tables.batch import Scene
from chunkfit.tables.grid import Ladder

POINTS = draw(SYNTHETIC_DOMAIN, 900, (129,), 5).points
LADDERS = {Scene.MIXED: Ladder((2, 300, 3000))}


def grid(decodes=(1, 2, 4, 8, 16, 32), contexts=(64, 512, 4096), chunks=(16, 64, 256, 512, 1024)):
    n, k, c = (axis.ravel() for axis in np.meshgrid(decodes, contexts, chunks, indexing="ij"))
    return np.column_stack([n, k, c, np.zeros_like(n)])


def rows_at(points, latency):
    return Rows(points, latency, np.arange(len(points)), np.zeros(len(points), dtype=bool))


@pytest.mark.parametrize(("columns", "count"), [(trend_features, 101), (few_trend_features, 10)])
def test_no_column_of_a_trend_falls_as_a_batch_gains_work(columns, count):
    assert columns(POINTS).shape == (len(POINTS), count)
    for axis in range(4):
        more = POINTS.copy()
        more[:, axis] += np.where(POINTS[:, axis] > 0, np.random.default_rng(0).integers(1, 300, len(POINTS)), 0)
        assert (columns(more) >= columns(POINTS)).all()
    assert (columns(POINTS) >= 0).all()


def test_a_wave_that_no_trend_has_is_followed_on_a_grid():
    points = grid()
    wave = 1 + 0.08 * np.sin(np.log2(points[:, 2])) * np.cos(np.log2(points[:, 0]))
    cost = truth.base_ms(points) * wave
    made = hybrid(rows_at(points, cost), LADDERS)[Scene.MIXED]
    assert made.coefficients["residual"] == 1
    assert np.quantile(np.abs(made.expected.total_ms(points) / cost - 1), 0.9) < 0.02


def test_in_a_gap_the_mean_errs_less_than_either_on_average():
    """Every third decode batch is missing. Which trend is the better one there differs; they agree where data is."""
    points = grid(decodes=(1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64), chunks=(16, 64, 256, 512, 1024))
    cost = truth.base_ms(points) * (1 + 0.1 * np.sin(1.5 * np.log2(points[:, 0])) * np.cos(np.log2(points[:, 2])))
    gap = np.isin(points[:, 0], (3, 8, 24))
    both = hybrid(rows_at(points[~gap], cost[~gap]), LADDERS)[Scene.MIXED].expected
    error, many, few = (
        np.abs(curve.total_ms(points[gap]) / cost[gap] - 1).mean() for curve in (both, both.many, both.few)
    )
    assert error < 0.95 * (many + few) / 2
    known = points[~gap]
    assert both.uncertainty(points[gap]).mean() > 3 * both.uncertainty(known).mean()
    assert np.abs(both.many.total_ms(known) / both.few.total_ms(known) - 1).mean() < 0.5 * error


def test_past_its_data_many_columns_go_on_alone():
    points = grid(chunks=(16, 64, 128, 256))
    wave = 1 + 0.08 * np.sin(np.log2(points[:, 2])) * np.cos(np.log2(points[:, 0]))
    made = hybrid(rows_at(points, truth.base_ms(points) * wave), LADDERS)[Scene.MIXED].expected
    edge = np.array([[16, 512, 256, 0], [4, 64, 256, 0]])
    past = edge + np.array([0, 0, 1024, 0])
    assert np.allclose(made.total_ms(edge), np.sqrt(made.many.total_ms(edge) * made.few.total_ms(edge)))
    assert np.allclose(made.total_ms(past) / made.total_ms(edge), made.many.total_ms(past) / made.many.total_ms(edge))
    assert np.abs(made.few.total_ms(past) / made.many.total_ms(past) - 1).min() > 0.05


def test_past_its_data_it_follows_the_trend():
    """Chunks up to 512 tokens seen, 1536 asked for: a tree or a grid would answer with the time of 512."""
    seen = POINTS[(POINTS[:, 0] > 0) & (POINTS[:, 2] > 0) & (POINTS[:, 2] <= 512)]
    made = hybrid(rows_at(seen, truth.base_ms(seen)), LADDERS)[Scene.MIXED]
    asked = np.array([[16, 1000, 1536, 0], [4, 500, 1536, 2000]])
    assert np.abs(made.expected.total_ms(asked) / truth.base_ms(asked) - 1).max() < 0.1


def test_noise_that_no_batch_explains_gets_no_residual():
    noise = np.exp(np.random.default_rng(0).normal(0, 0.05, len(POINTS)))
    mixed = POINTS[(POINTS[:, 0] > 0) & (POINTS[:, 2] > 0)]
    cost = truth.base_ms(mixed) * noise[: len(mixed)]
    assert hybrid(rows_at(mixed, cost), LADDERS)[Scene.MIXED].coefficients["residual"] == 0


def test_points_of_one_batch_count_as_one_value_with_less_noise():
    points = grid()
    cost = truth.base_ms(points)
    often = np.concatenate([points, np.repeat(points[:1], 200, axis=0)])
    made = hybrid(rows_at(often, np.concatenate([cost, np.full(200, cost[0])])), LADDERS)[Scene.MIXED]
    assert np.abs(made.expected.total_ms(points) / cost - 1).max() < 0.05
