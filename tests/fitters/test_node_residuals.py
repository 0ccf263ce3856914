"""The correction follows data where there is data and leaves the model alone where there is none."""

import numpy as np
import pytest

from chunkfit.fitters import node_residuals
from chunkfit.fitters.isotonic_projection import isotonic_projection
from chunkfit.fitters.node_residuals import SceneGrid, base_weights, ladder_weights, smooth_residuals, smoothness
from chunkfit.fitters.rows import Rows
from chunkfit.tables.batch import Scene
from chunkfit.tables.grid import Axes, Ladder, nearest_ticks, node_points, read_base, to_ms

AXES = Axes((1, 4, 16), (16, 256, 2048), (1, 8, 64, 256), (0, 64, 512))


def random_points(rng, count, limits=(16, 2048, 256, 512)):
    return np.column_stack([rng.integers(1, limit + 1, count) for limit in limits])


def test_weights_are_those_the_table_reads_with():
    rng = np.random.default_rng(0)
    points = random_points(rng, 300)
    base = rng.uniform(0, 50, AXES.shape(Scene.MIXED))
    read = to_ms(read_base(nearest_ticks(base), AXES, Scene.MIXED, points))
    weights = base_weights(AXES, Scene.MIXED, points)
    assert np.allclose(weights @ base.ravel(), read, atol=0.001)
    assert np.allclose(weights.sum(axis=1), 1)
    ladder = Ladder((1, 10, 128, 129, 300))
    values = np.array([1.0, 2, 3, 30, 31])
    dense = to_ms(ladder.dense(nearest_ticks(values), 300))
    totals = points[:, 0] + points[:, 2]
    assert np.allclose(ladder_weights(ladder, points) @ values, dense[np.minimum(totals, 300)], atol=0.02)


def fitted(limits, surprise):
    """Corrected nodes of a flat 10 ms model where the truth is `surprise(points)` times the model."""
    rng = np.random.default_rng(1)
    points = random_points(rng, 1500, limits)
    points[:, 1] = np.maximum(points[:, 1], 16)
    latency = 10.0 * surprise(points) * np.exp(0.01 * rng.standard_normal(1500))
    latency[::50] *= 5  # stalls
    rows = Rows(points, latency, np.arange(1500), np.zeros(1500, dtype=bool))
    ladder = Ladder((2, 8, 32, 128, 129, 272))
    nodes = node_points(AXES, Scene.MIXED)
    grid = SceneGrid(AXES, Scene.MIXED, ladder, (129,))
    result = smooth_residuals(grid, np.full(6, 10.0), np.zeros(len(nodes)), rows)
    read = (
        ladder_weights(ladder, points) @ result.ladder + base_weights(AXES, Scene.MIXED, points) @ result.base.ravel()
    )
    return result, np.delete(read / (10.0 * surprise(points)), np.s_[::50])


def test_a_step_the_model_lacks_is_found_from_the_data():
    """In the two knots of the step, with nothing of it smoothed away."""
    result, ratio = fitted((16, 2048, 256, 512), lambda p: np.where(p[:, 0] + p[:, 2] >= 129, 1.2, 1.0))
    assert np.quantile(np.abs(ratio - 1), 0.9) < 0.01
    assert result.ladder[4] - result.ladder[3] == pytest.approx(2.0, abs=0.06)


def test_the_sides_of_a_step_are_no_neighbours_to_the_smoother():
    smooth = smoothness(SceneGrid(AXES, Scene.MIXED, Ladder((2, 8, 32, 128, 129, 272)), (129,))).toarray()
    assert smooth[3, 4] == 0
    assert smooth[2, 3] < 0
    assert smooth[4, 5] < 0
    assert np.linalg.eigvalsh(smooth).min() > 0, "a prior: positive definite"


def test_nodes_far_from_data_keep_the_model():
    """Data below u = 64 only, 10% above the model: the far prefix nodes are not measured and hardly move."""
    result, ratio = fitted((16, 2048, 256, 60), lambda p: np.full(len(p), 1.1))
    assert np.median(np.abs(ratio - 1)) < 0.005
    assert not result.base_measured[:, :, 2, :].any()
    near = np.abs(result.base[:, :, :2, :]).max()
    assert np.abs(result.base[:, :, 2, :]).max() <= near + 1e-9


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_scene_of_hardly_any_points_is_corrected_without_a_warning(count):
    """A log may hold one prefill alone: a fold without it had nothing to learn from."""
    points = random_points(np.random.default_rng(4), count)
    ladder, nodes = Ladder((2, 32, 272)), node_points(AXES, Scene.MIXED)
    rows = Rows(points, np.full(count, 12.0), np.arange(count), np.zeros(count, dtype=bool))
    grid = SceneGrid(AXES, Scene.MIXED, ladder, ())
    made = smooth_residuals(grid, np.full(3, 10.0), np.zeros(len(nodes)), rows)
    # Towards 20% more, and no further: a few points are not trusted far.
    assert 10.0 < made.ladder.max() < 12.0


def test_stalls_do_not_pull_the_nodes():
    _, ratio = fitted((16, 2048, 256, 512), lambda p: np.ones(len(p)))
    assert np.abs(ratio - 1).max() < 0.03
    assert ratio.mean() == pytest.approx(1.0, abs=0.003)


def test_a_ladder_that_the_closure_changes_is_made_up_for_by_the_base():
    """Ladder and base are closed one by one: where the ladder must not fall, the base does what is left."""
    rng = np.random.default_rng(2)
    points = random_points(rng, 1500)
    points[:, 1] = np.maximum(points[:, 1], 16)
    totals = points[:, 0] + points[:, 2]
    ladder = Ladder((2, 8, 32, 64, 128, 200, 272))
    flat = np.full(7, 10.0)  # the truth falls at 100, so the corrected ladder does
    true = np.where(totals < 100, 14.0, 9.0)
    rows = Rows(points, true, np.arange(1500), np.zeros(1500, dtype=bool))
    nodes = node_points(AXES, Scene.MIXED)
    made = smooth_residuals(SceneGrid(AXES, Scene.MIXED, ladder, ()), flat, np.zeros(len(nodes)), rows)
    closed = isotonic_projection(made.ladder, made.ladder_measured)
    read = ladder_weights(ladder, points) @ closed + base_weights(AXES, Scene.MIXED, points) @ made.base.ravel()
    assert not np.allclose(closed, made.ladder)
    assert np.quantile(np.abs(read / true - 1), 0.5) < 0.1


def test_many_points_choose_their_strength_by_a_draw_of_them(monkeypatch):
    """The same one: it does not depend on how many points there are."""
    solved = []
    solve = node_residuals._solve
    monkeypatch.setattr(node_residuals, "_solve", lambda *a: (solved.append((a[0].shape[0], a[3])), solve(*a))[1])

    def wave(points):
        return 1 + 0.1 * np.sin(points[:, 2] / 40)

    every, _ = fitted((16, 2048, 256, 512), wave)
    whole = solved[-1]
    monkeypatch.setattr(node_residuals, "MOST_STRENGTH_POINTS", 700)
    some, _ = fitted((16, 2048, 256, 512), wave)
    assert solved[-1] == whole == (1500, whole[1])
    assert np.array_equal(every.base, some.base)
    assert {rows for rows, _ in solved[len(solved) // 2 :]} == {525, 1500}
