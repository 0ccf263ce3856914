"""The estimator alone: monotone by construction, bends and steps found, thin scenes served by the others."""

import numpy as np
import pytest

from chunkfit.fitters.estimators.scene_experts import MIN_SCENE_ROWS, scene_experts
from chunkfit.fitters.knots import axes_for, ladder_for, log_knots
from chunkfit.fitters.rows import Rows, rows_of
from chunkfit.profiler.devices import truth
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.sampling import draw
from chunkfit.profiler.synthetic_profile import synthetic_profile
from chunkfit.tables.batch import SCENES, Scene
from chunkfit.tables.grid import scene_of

LADDERS = {scene: ladder_for(SYNTHETIC_DOMAIN, scene, (129,)) for scene in SCENES}


@pytest.fixture(scope="module")
def rows() -> Rows:
    return rows_of(synthetic_profile(0), "fit")


def error(models, rows, scene):
    part = rows.scene(scene)
    return np.abs(models[scene].expected.total_ms(part.points) / truth.median_ms(part.points) - 1)


def test_every_expert_follows_its_scene(rows):
    models = scene_experts(rows, LADDERS)
    for scene in SCENES:
        assert np.quantile(error(models, rows, scene), 0.9) < 0.02


@pytest.mark.parametrize("scene", SCENES)
def test_experts_never_fall_as_a_batch_gains_work(rows, scene):
    model = scene_experts(rows, LADDERS)[scene]
    points = rows.scene(scene).points[:200]
    for axis in range(4):
        more = points.copy()
        more[:, axis] += np.where(points[:, axis] > 0, 1, 0)
        assert (model.expected_ms(more) >= model.expected_ms(points) - 1e-9).all()


def test_a_step_of_the_plan_is_sharp(rows):
    ladder = scene_experts(rows, LADDERS)[Scene.MIXED].expected
    low, high = ladder.ladder_ms(np.array([128, 129]))
    assert high / low == pytest.approx(1.08, abs=0.02)


def test_a_thin_scene_is_served_by_all_rows(rows):
    """Eight prefill points: far too few for a ladder of 80 knots, but the other scenes know the device."""
    prefill = np.flatnonzero(scene_of(rows.points) == "prefill")
    kept = np.ones(len(rows), dtype=bool)
    kept[prefill[24:]] = False
    thin = rows.where(kept)
    assert len(thin.scene(Scene.PREFILL)) < MIN_SCENE_ROWS
    assert np.median(error(scene_experts(thin, LADDERS), rows, Scene.PREFILL)) < 0.03


def test_knots_end_where_the_domain_ends_and_hold_both_sides_of_a_step():
    axes = axes_for(SYNTHETIC_DOMAIN, draw(SYNTHETIC_DOMAIN, 100, (129,), 0).points)
    assert (axes.decodes[0], axes.decodes[-1]) == (1, SYNTHETIC_DOMAIN.max_decodes)
    assert (axes.chunk_tokens[0], axes.prefix_tokens[0]) == (1, 0)
    assert axes.prefix_tokens[-1] == SYNTHETIC_DOMAIN.max_prefix_tokens
    assert {128, 129} <= set(LADDERS[Scene.MIXED].batch_tokens)
    assert log_knots(1, 1, 2.0) == (1,)
    assert log_knots(1, 2, 2.0) == (1, 2)
    for last in (3, 17, 100, 8192):
        knots = log_knots(1, last, 1.08)
        assert knots[-1] == last
        assert list(knots) == sorted(set(knots))
