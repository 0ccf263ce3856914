"""Each estimator on the truths of its class, and all of them on planted stalls. The test rows are fresh points."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from chunkfit.files.errors import FitError
from chunkfit.fitters.estimators.boosted import boost
from chunkfit.fitters.estimators.features import features
from chunkfit.fitters.estimators.quantile import median_regression
from chunkfit.fitters.estimators.registry import ESTIMATORS
from chunkfit.fitters.knots import ladder_for
from chunkfit.fitters.metrics import pinball
from chunkfit.fitters.numerics import without_negatives
from chunkfit.fitters.rows import Rows, rows_of
from chunkfit.profiler.devices import truth
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.sampling import draw
from chunkfit.profiler.synthetic_profile import synthetic_profile
from chunkfit.tables.batch import SCENES, Scene
from chunkfit.tables.grid import scene_of

# Roofline needs microbenchmarks: test_roofline.py.
NAMES = [name for name in ESTIMATORS if name != "roofline"]
LADDERS = {scene: ladder_for(SYNTHETIC_DOMAIN, scene, (129,)) for scene in SCENES}
FRESH = draw(SYNTHETIC_DOMAIN, 900, (129,), 77).points
SEVEN = np.array([2e-6, 1e-6, 5e-5, 0.02, 1e-5, 0.01, 0.0])  # ms per unit of each feature


def sloweave(points):
    """The cost of SLOWeave's simulator, and the context terms that it leaves out."""
    n, k, c, u = points.T.astype(float)
    return 0.35 + np.where(n > 0, 0.9 + 0.055 * n + 2e-5 * n * k, 0) + np.where(c > 0, 0.4 + 0.006 * c + 1e-5 * u, 0)


def stairs(points):
    """Constant but for five steps, each in what one tree can ask for."""
    n, k, c, u = points.T.astype(float)
    return 10.0 + 2 * (n > 8) + 3 * (n * k > 20_000) + 4 * (n + c >= 129) + 6 * (c >= 600) + 3 * (u > 2000)


def seven_features(points):
    return 5.0 + features(points) @ SEVEN


def rows_with(cost, points=None, noise=0.01, seed=0) -> Rows:
    """One row a point, log-normal noise."""
    points = draw(SYNTHETIC_DOMAIN, 900, (129,), seed).points if points is None else points
    rng = np.random.default_rng(seed)
    latency = cost(points) * np.exp(noise * rng.standard_normal(len(points)))
    return Rows(points, latency, np.arange(len(points)), np.zeros(len(points), dtype=bool))


def grid():
    """Every combination of a few values of each coordinate, in all scenes."""
    axes = [(0, 1, 8, 64), (64, 1024), (0, 64, 512, 1024), (0, 4096)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 4)
    points = points * np.column_stack([np.ones(len(points)), points[:, 0] > 0, np.ones(len(points)), points[:, 2] > 0])
    points = np.unique(points.astype(np.int64), axis=0)
    return points[points[:, 0] + points[:, 2] > 0]


def predicted(models, points=FRESH):
    out = np.zeros(len(points))
    for scene, model in models.items():
        here = scene_of(points) == scene.value
        out[here] = model.expected.total_ms(points[here])
    return out


# Points measured and asked about where they are not those of the law.
ON_A_GRID = {"isotonic": np.repeat(grid(), 4, axis=0)}
# Cost, and what the error over fresh points is at its median and P90.
CLASSES = {
    "linear": (sloweave, 0.002, 0.004),
    "quantile": (seven_features, 0.004, 0.01),
    "scene_experts": (truth.base_ms, 0.005, 0.012),
    "isotonic": (truth.base_ms, 0.006, 0.015),
    "boosted": (stairs, 0.004, 0.02),
    "hybrid": (truth.base_ms, 0.005, 0.012),
}


@pytest.mark.parametrize("name", NAMES)
def test_recovery_within_its_class(name):
    cost, median, p90 = CLASSES[name]
    asked = ON_A_GRID.get(name, FRESH)
    error = np.abs(predicted(ESTIMATORS[name](rows_with(cost, ON_A_GRID.get(name)), LADDERS), asked) / cost(asked) - 1)
    print(f"{name}: median {100 * np.median(error):.2f}%, P90 {100 * np.quantile(error, 0.9):.2f}%")
    assert np.median(error) < median
    assert np.quantile(error, 0.9) < p90


@pytest.mark.parametrize("name", NAMES)
def test_rare_stalls_do_not_move_the_median(name):
    """30 times the time in 0.5% of the rows, repeats and single rows alike."""
    cost = CLASSES[name][0]
    calm, asked = rows_with(cost, ON_A_GRID.get(name)), ON_A_GRID.get(name, FRESH)
    stalled = np.random.default_rng(1).permutation(len(calm)) < max(1, len(calm) // 200)
    wild = replace(calm, latency_ms=np.where(stalled, 30.0, 1.0) * calm.latency_ms)
    after, before = (predicted(ESTIMATORS[name](rows, LADDERS), asked) for rows in (wild, calm))
    moved = np.abs(after / before - 1)
    print(f"{name}: median {100 * np.median(moved):.3f}%, P90 {100 * np.quantile(moved, 0.9):.3f}%")
    assert np.median(moved) < 0.01
    if name != "boosted":
        assert moved.max() < 0.01
    else:  # trees are cut elsewhere for a few rows less: a stall moves them as far as its absence does, no farther
        gone = np.abs(predicted(ESTIMATORS[name](calm.where(~stalled), LADDERS), asked) / before - 1)
        assert np.quantile(moved, 0.99) < 2 * np.quantile(gone, 0.99) + 0.001


@pytest.mark.parametrize("name", ["linear", "quantile", "scene_experts", "isotonic", "boosted"])
@pytest.mark.parametrize("scene", SCENES)
def test_work_never_makes_an_estimate_fall(name, scene, models):
    model, points = models[name][scene], FRESH[scene_of(FRESH) == scene.value]
    for axis in range(4):
        more = points.copy()
        more[:, axis] += np.where(points[:, axis] > 0, 7, 0)
        assert (model.expected.total_ms(more) >= model.expected.total_ms(points) - 1e-9).all()


@pytest.fixture(scope="module")
def models():
    rows = rows_of(synthetic_profile(0, fit_points=600, calibrate_points=3, test_points=3), "fit")
    return {name: estimator(rows, LADDERS) for name, estimator in ESTIMATORS.items() if name in NAMES}


def least_pinball(x, y, quantile):
    """Coefficients b >= 0 of least pinball loss (Koenker & Bassett 1978), by the dual linear program."""
    scale = x.max(axis=0)
    used = scale > 0
    scaled = x[:, used] / scale[used]
    bounds = (quantile - 1.0, quantile)
    result = linprog(-y, A_ub=scaled.T, b_ub=np.zeros(scaled.shape[1]), bounds=bounds, method="highs")
    assert result.status == 0
    coefficients = np.zeros(x.shape[1])
    coefficients[used] = np.maximum(-result.ineqlin.marginals, 0.0) / scale[used]
    return coefficients


def test_quantreg_and_a_linear_program_reach_the_same_loss():
    rows = rows_with(seven_features).scene(Scene.MIXED)
    columns = np.column_stack([np.ones(len(rows)), features(rows.points)]) / rows.latency_ms[:, None]
    best = least_pinball(columns, np.ones(len(rows)), 0.5)
    ours = without_negatives(lambda x: median_regression(x, Scene.MIXED), columns)
    assert pinball(1 - columns @ ours, 0.5) == pytest.approx(pinball(1 - columns @ best, 0.5), rel=0.003)


def test_a_regression_that_does_not_converge_is_an_error(monkeypatch):
    from chunkfit.fitters.estimators import quantile

    monkeypatch.setattr(quantile, "MOST_ITERATIONS", 2)
    with pytest.raises(FitError, match=r"fitter quantile, scene decode, quantile 0.5: .*expected convergence on 300"):
        ESTIMATORS["quantile"](rows_with(seven_features), LADDERS)


def test_what_lightgbm_refuses_is_an_error_of_ours():
    """The pair that makes squared error of log T necessary."""
    x = np.linspace(1, 2, 50)[:, None]
    refused = {"objective": "quantile", "monotone_constraints": [1], "verbosity": -1}
    with pytest.raises(FitError, match=r"LightGBM on 50 points: .*monotone_constraints.*another --fitter"):
        boost(x, x[:, 0], np.ones(50), refused, 5)
