"""The adaptive plan's predictor is the expected time of the table that would be fitted."""

import numpy as np
import pytest

from chunkfit.fitters.predictor import TablePredictor
from chunkfit.profiler.devices import truth
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.sampling import draw
from chunkfit.tables.grid import scene_of

PREDICT = TablePredictor(SYNTHETIC_DOMAIN, (129,))
POINTS = draw(SYNTHETIC_DOMAIN, 300, (129,), 0).points
QUERIES = draw(SYNTHETIC_DOMAIN, 300, (129,), 1).points


def off(points):
    return np.abs(PREDICT(points, truth.median_ms(points), QUERIES) / truth.median_ms(QUERIES) - 1)


def test_it_knows_the_truth_at_points_it_has_not_seen():
    error = off(POINTS)
    assert np.median(error) < 0.008
    assert np.quantile(error, 0.99) < 0.04


@pytest.mark.parametrize("thin", ["decode", "mixed"])
def test_a_scene_of_few_points_is_predicted_by_its_model(thin):
    names = scene_of(POINTS)
    rare = np.flatnonzero(names == thin)[5:]
    error = off(np.delete(POINTS, rare, axis=0))
    assert np.isfinite(error).all()
    assert np.median(error[scene_of(QUERIES) == thin]) < 0.15
    assert np.median(error[scene_of(QUERIES) != thin]) < 0.01
