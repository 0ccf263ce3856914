"""`quantile`: the seven features of SlidingServe per scene, median and 0.99 tail by statsmodels QuantReg.

The reference that the linear program of quantile_lp.py is checked against. Relative error (both sides are
divided by T), columns scaled: on columns as they come the iteration stops at its limit with coverage 0.93 where
0.99 was asked for, and only warns. Here that warning is an error. Coefficients >= 0 (signs.py).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ...files.errors import FitError
from ...tables.batch import Scene
from ...tables.grid import Ladder
from ..numerics import without_negatives
from ..rows import Rows
from .estimator import SceneModel
from .feature_curve import FeatureCurve
from .features import features
from .scene_experts import MIN_SCENE_ROWS
from .tails import TAIL

MOST_ITERATIONS = 5000
# Of coefficients whose columns reach 1, where the left side is 1: the last 0.01% takes thousands of iterations.
TOLERANCE = 1e-4


def quantile(rows: Rows, ladders: Mapping[Scene, Ladder]) -> dict[Scene, SceneModel]:
    """One pair of regressions per scene of `ladders`; scenes with few rows get that of all rows.

    Raises FitError when one does not converge.
    """
    models = {}
    for scene, ladder in ladders.items():
        own = rows.scene(scene)
        own = own if len(own) >= MIN_SCENE_ROWS else rows
        expected, tail = (_curve(own, scene, ladder, q) for q in (0.5, TAIL))
        models[scene] = SceneModel(expected, tail, expected.named() | tail.named("tail_"))
    return models


def _curve(rows: Rows, scene: Scene, ladder: Ladder, q: float) -> FeatureCurve:
    columns = np.column_stack([np.ones(len(rows)), features(rows.points)]) / rows.latency_ms[:, None]
    coefficients = without_negatives(lambda x: _regression(x, scene, q), columns)
    ends = np.asarray([ladder.batch_tokens[0], ladder.batch_tokens[-1]], dtype=np.float64)
    return FeatureCurve(scene, ends, np.full(2, coefficients[0]), coefficients[1:])


def _regression(x: NDArray[np.float64], scene: Scene, q: float) -> NDArray[np.float64]:
    """Coefficients of the q-quantile of 1 given x."""
    from statsmodels.regression.quantile_regression import QuantReg
    from statsmodels.tools.sm_exceptions import ConvergenceWarning, IterationLimitWarning

    # Its covariance, which nobody reads, is estimated with the spread of the left side: all ones here.
    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        for kind in (IterationLimitWarning, ConvergenceWarning):
            warnings.simplefilter("error", kind)
        try:
            return np.asarray(QuantReg(np.ones(len(x)), x).fit(q=q, max_iter=MOST_ITERATIONS, p_tol=TOLERANCE).params)
        except (IterationLimitWarning, ConvergenceWarning, ValueError, np.linalg.LinAlgError) as error:
            raise FitError(
                f"fitter quantile, scene {scene.value}, quantile {q}: {error}; expected convergence on {len(x)} rows "
                "within the iteration limit: use another --fitter or profile more points"
            ) from error
