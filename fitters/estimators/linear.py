"""`linear`: the affine form of SLOWeave with its context terms, one model for all scenes, by statsmodels WLS.

    a0 + [n > 0] (a1 + a2 n + a3 n k) + [c > 0] (a4 + a5 c + a6 c (u + c)) + a7 (u + n k)

Weights 1 / T^2, so the relative error is minimised; coefficients >= 0, by backward elimination (numerics.py). It is the
simplest model, and the usual cost of a simulator.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ...tables.batch import Scene
from ...tables.grid import Ladder
from ..numerics import without_negatives
from ..rows import Rows
from .estimator import SceneModel
from .features import FEATURES, FeatureCurve, features

USED_FEATURES = np.isin(FEATURES, ("chunk_attention", "computed_tokens", "decodes", "decode_context", "chunk_tokens"))
CONSTANTS = ("constant", "with_decodes", "with_chunk")


def linear(rows: Rows, ladders: Mapping[Scene, Ladder]) -> dict[Scene, SceneModel]:
    """One model over all rows, read in each scene of `ladders`. Raises FitError."""
    from statsmodels.regression.linear_model import WLS

    n, c = rows.points[:, 0], rows.points[:, 2]
    constants = np.column_stack([np.ones(len(rows)), n > 0, c > 0])
    columns = np.column_stack([constants, features(rows.points)[:, USED_FEATURES]])

    def fit(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(WLS(rows.latency_ms, x, weights=rows.latency_ms**-2.0).fit().params)

    coefficients = without_negatives(fit, columns)
    weights = np.zeros(len(FEATURES))
    weights[USED_FEATURES] = coefficients[len(CONSTANTS) :]
    shown = dict(zip(CONSTANTS, coefficients.tolist(), strict=False))
    models = {}
    for scene, ladder in ladders.items():
        constant = float(coefficients[:3] @ [1, scene is not Scene.PREFILL, scene is not Scene.DECODE])
        ends = np.asarray([ladder.batch_tokens[0], ladder.batch_tokens[-1]], dtype=np.float64)
        curve = FeatureCurve(scene, ends, np.full(2, constant), weights)
        models[scene] = SceneModel(curve, shown | curve.named())
    return models
