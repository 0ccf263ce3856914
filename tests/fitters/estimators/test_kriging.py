"""Kriging against the same Gaussian process solved whole in float64, left-out points, stalls, noise and size."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from chunkfit.fitters.estimators.kriging import NEIGHBOURS, fit_kriging, loss
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.sampling import draw

POINTS = np.unique(draw(SYNTHETIC_DOMAIN, 1200, (129,), 5).points, axis=0)
MIXED = POINTS[(POINTS[:, 0] > 0) & (POINTS[:, 2] > 0)]


def wave(points):
    logs = np.log2(1.0 + points)
    return 0.1 * np.sin(logs[:, 2]) + 0.05 * np.cos(logs[:, 0]) + 0.01 * logs[:, 1]


def ones(points):
    return np.ones(len(points))


def test_few_points_are_the_whole_process():
    """With no more points than neighbours, the prediction is scikit-learn's with the same parameters."""
    known, asked = MIXED[:NEIGHBOURS], MIXED[NEIGHBOURS : NEIGHBOURS + 50]
    made = fit_kriging(known, wave(known), ones(known))
    kernel = ConstantKernel(made.variance) * Matern(1.0, nu=1.5) + WhiteKernel(made.noise)
    whole = GaussianProcessRegressor(kernel, optimizer=None).fit(made.inputs, made.values - made.mean)
    inputs = asked[:, made.axes] ** (1 / 5) / made.lengths
    assert (made.weights == 1).all()
    assert np.allclose(made.at(asked), whole.predict(inputs) + made.mean, atol=1e-8)


def test_a_smooth_surface_is_found_between_its_points():
    known, asked = MIXED[::2], MIXED[1::2]
    made = fit_kriging(known, wave(known), ones(known))
    assert np.abs(made.at(asked) - wave(asked)).mean() < 0.1 * np.abs(wave(asked) - wave(asked).mean()).mean()


def test_a_point_left_out_does_not_know_itself():
    values = wave(MIXED)
    moved = values.copy()
    moved[7] += 0.02
    made = fit_kriging(MIXED, values, ones(MIXED))
    other = fit_kriging(MIXED, moved, ones(MIXED))
    assert abs(other.leave_one_out()[7] - made.leave_one_out()[7]) < 0.005
    assert abs(other.at(MIXED[7:8])[0] - made.at(MIXED[7:8])[0]) > 0.01


def test_what_is_held_out_together_does_not_know_itself_together():
    """Without all large chunks they are guessed from afar; each one alone is known from its neighbours."""
    values, held = wave(MIXED), MIXED[:, 2] > np.median(MIXED[:, 2])
    made = fit_kriging(MIXED, values, ones(MIXED))
    together, alone = made.without(held).at(MIXED[held]) - values[held], (made.leave_one_out() - values)[held]
    assert np.abs(together).mean() > 3 * np.abs(alone).mean()


def test_a_stall_of_thirty_times_moves_nobody_by_a_percent():
    values = wave(MIXED)
    stalled = np.random.default_rng(0).permutation(len(MIXED))[:4]
    hit = values.copy()
    hit[stalled] += np.log(30)
    others = np.delete(MIXED, stalled, axis=0)
    clean, made = fit_kriging(MIXED, values, ones(MIXED)), fit_kriging(MIXED, hit, ones(MIXED))
    assert np.median(np.abs(made.at(others) - clean.at(others))) < 0.001
    assert np.quantile(np.abs(made.at(others) - clean.at(others)), 0.99) < 0.01


def test_the_gradient_is_that_of_the_loss():
    rng = np.random.default_rng(0)
    inputs, values = rng.uniform(0, 6, (40, 8, 3)), rng.normal(0, 0.1, (40, 8))
    arguments = inputs, values, rng.integers(1, 5, (40, 8)).astype(float), np.log([1.0, 1, 1, 0.1, 0.02])
    for at in (np.log([1.0, 3, 0.4, 0.1, 0.02]), np.log([5.0, 0.8, 2, 0.05, 0.1])):
        numeric = approx_fprime(at, lambda x: loss(x, *arguments)[0], 1e-6)
        assert loss(at, *arguments)[1] == pytest.approx(numeric, rel=1e-4, abs=1e-3)


def test_noise_is_averaged_over_neighbours():
    noise = np.random.default_rng(0).normal(0, 0.05, len(MIXED))
    made = fit_kriging(MIXED, wave(MIXED) + noise, ones(MIXED))
    assert np.abs(made.at(MIXED) - wave(MIXED)).mean() < 0.6 * np.abs(noise).mean()
    assert made.noise**0.5 == pytest.approx(0.05, rel=0.4)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_a_handful_of_points_is_enough(count):
    made = fit_kriging(MIXED[:count], wave(MIXED[:count]), ones(MIXED[:count]))
    assert np.isfinite(made.at(MIXED)).all()
    assert np.isfinite(made.leave_one_out()).all() or count == 1
