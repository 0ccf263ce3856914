"""Roofline on an engine that is the sum of its operators, and what it says when operators are missing."""

from dataclasses import replace

import numpy as np
import pytest
from support.operators import LAYERS, engine_ms, operator_results

from chunkfit.files.errors import FingerprintMismatchError, FitError
from chunkfit.fitters.estimators.estimator import SplitCurve
from chunkfit.fitters.estimators.registry import estimators
from chunkfit.fitters.estimators.roofline import Roofline, operators_of
from chunkfit.fitters.fit import fit
from chunkfit.fitters.knots import ladder_for
from chunkfit.fitters.rows import Rows
from chunkfit.profiler.devices.synthetic import FINGERPRINT
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.sampling import draw
from chunkfit.profiler.synthetic_profile import synthetic_profile
from chunkfit.tables.batch import SCENES
from chunkfit.tables.grid import scene_of

LADDERS = {scene: ladder_for(SYNTHETIC_DOMAIN, scene, ()) for scene in SCENES}
FRESH = draw(SYNTHETIC_DOMAIN, 600, (), 77).points


def rows_with(points, noise=0.01):
    rng = np.random.default_rng(0)
    latency = engine_ms(points) * np.exp(noise * rng.standard_normal(len(points)))
    return Rows(points, latency, np.arange(len(points)), np.zeros(len(points), dtype=bool))


def predicted(models):
    out = np.zeros(len(FRESH))
    for scene, model in models.items():
        here = scene_of(FRESH) == scene.value
        out[here] = model.expected.total_ms(FRESH[here])
    return out


def test_an_engine_that_is_the_sum_of_its_operators_is_recovered():
    models = Roofline(operator_results())(rows_with(draw(SYNTHETIC_DOMAIN, 600, (), 1).points), LADDERS)
    error = np.abs(predicted(models) / engine_ms(FRESH) - 1)
    assert np.quantile(error, 0.9) < 0.01
    found = models[SCENES[2]].coefficients
    assert found["decode_attention"] == pytest.approx(LAYERS, rel=0.05)
    assert found["chunk_attention"] == pytest.approx(LAYERS, rel=0.05)


def test_rare_stalls_do_not_move_it():
    rows = rows_with(draw(SYNTHETIC_DOMAIN, 600, (), 1).points)
    wild = replace(rows, latency_ms=rows.latency_ms * np.where(np.arange(600) % 200 == 7, 30.0, 1.0))
    before, after = (predicted(Roofline(operator_results())(r, LADDERS)) for r in (rows, wild))
    assert np.abs(after / before - 1).max() < 0.01


@pytest.mark.parametrize("scene", SCENES)
def test_it_never_falls_and_is_made_of_ladder_and_base(scene):
    model = Roofline(operator_results())(rows_with(draw(SYNTHETIC_DOMAIN, 300, (), 1).points), LADDERS)[scene]
    assert isinstance(model.expected, SplitCurve)
    points = FRESH[scene_of(FRESH) == scene.value]
    parts = model.expected.ladder_ms(points[:, 0] + points[:, 2]) + model.expected.base_ms(points)
    assert np.allclose(parts, model.expected.total_ms(points))
    for axis in range(4):
        more = points.copy()
        more[:, axis] += np.where(points[:, axis] > 0, 9, 0)
        assert (model.expected.total_ms(more) >= model.expected.total_ms(points) - 1e-9).all()


def test_the_ceiling_is_the_longer_of_bandwidth_and_rate():
    found = operators_of(operator_results())
    assert found.ceiling_ms[0] == pytest.approx(1e3 * (400_000 + 100) / 1e9)
    assert found.ceiling_ms[-1] == pytest.approx(1e3 * 1000 * 2176 / 1e9)


@pytest.mark.parametrize("name", ["token_parallel", "decode_attention", "chunk_attention"])
def test_a_missing_operator_is_named(name):
    fitter = estimators("roofline", operator_results(without=(name,)))["roofline"]
    with pytest.raises(FitError, match=f"0 sizes of {name}; expected at least [12]: run `chunkfit microbench`"):
        fitter(rows_with(FRESH), LADDERS)


def test_without_microbenchmarks_it_says_what_it_needs():
    with pytest.raises(FitError, match="give --microbench FILE"):
        estimators("roofline")["roofline"](rows_with(FRESH), LADDERS)


def test_microbenchmarks_of_another_device_are_refused():
    other = operator_results().model_copy(
        update={"fingerprint": FINGERPRINT.model_copy(update={"device_name": "another"})}
    )
    profile = synthetic_profile(0, fit_points=60, calibrate_points=30, test_points=30)
    with pytest.raises(FingerprintMismatchError, match=r"profile and microbenchmarks: .*device_name"):
        fit(profile, fitter="roofline", operators=other)
