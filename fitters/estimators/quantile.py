"""`quantile`: the seven features of SlidingServe per scene, median by statsmodels QuantReg.

Relative error (both sides are divided by T), columns scaled: on unscaled columns the iteration stops at its limit with
coverage 0.93 for a quantile of 0.99, and only warns. Here that warning is an error. Coefficients >= 0, by backward
elimination (numerics.py).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ...files.errors import FitError
from ...tables.batch import Scene
from ...tables.grid import Ladder
from ..numerics import without_negatives
from ..rows import Rows
from .estimator import SceneModel
from .features import FeatureCurve, features
from .scene_experts import MIN_SCENE_ROWS

MOST_ITERATIONS = 5000
# Of coefficients whose columns reach 1, where the left side is 1: the last 0.01% takes thousands of iterations.
COEFFICIENT_TOLERANCE = 1e-4


def quantile(rows: Rows, ladders: Mapping[Scene, Ladder]) -> dict[Scene, SceneModel]:
    """One regression per scene of `ladders`; scenes with few rows get that of all rows.

    Raises FitError when one does not converge.
    """
    models = {}
    for scene, ladder in ladders.items():
        scene_rows = rows.scene(scene)
        scene_rows = scene_rows if len(scene_rows) >= MIN_SCENE_ROWS else rows
        columns = np.column_stack([np.ones(len(scene_rows)), features(scene_rows.points)])
        columns = columns / scene_rows.latency_ms[:, None]
        coefficients = without_negatives(partial(median_regression, scene=scene), columns)
        ends = np.asarray([ladder.batch_tokens[0], ladder.batch_tokens[-1]], dtype=np.float64)
        curve = FeatureCurve(scene, ends, np.full(2, coefficients[0]), coefficients[1:])
        models[scene] = SceneModel(curve, curve.named())
    return models


def median_regression(x: NDArray[np.float64], scene: Scene) -> NDArray[np.float64]:
    """Coefficients (columns,) of the median of 1 given x (rows, columns). Raises FitError naming `scene`."""
    from statsmodels.regression.quantile_regression import QuantReg
    from statsmodels.tools.sm_exceptions import ConvergenceWarning, IterationLimitWarning

    regression = QuantReg(np.ones(len(x)), x)
    # Its covariance, which is not used, is estimated with the spread of the left side: all ones here.
    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        for kind in (IterationLimitWarning, ConvergenceWarning):
            warnings.simplefilter("error", kind)
        try:
            return np.asarray(regression.fit(q=0.5, max_iter=MOST_ITERATIONS, p_tol=COEFFICIENT_TOLERANCE).params)
        except (IterationLimitWarning, ConvergenceWarning, ValueError, np.linalg.LinAlgError) as error:
            raise FitError(
                f"fitter quantile, scene {scene.value}, quantile 0.5: {error}; expected convergence on {len(x)} rows "
                "within the iteration limit: use another --fitter or profile more points"
            ) from error
