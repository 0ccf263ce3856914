"""`boosted`: gradient boosting (LightGBM) of log T, non-decreasing in every input.

Squared error with `monotone_constraints`, method "advanced": LightGBM refuses its quantile, l1 and mape
objectives together with constraints, and the libraries that accept the pair break the order.

Rows are the medians of points, one weight each, and three rounds of Huber weights: the logarithm of a stall of
30x is 3.4, which a leaf of 20 points would follow by 17%. Boosting cannot extrapolate: past the outermost
points it is constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...files.errors import FitError
from ...tables.batch import Scene
from ...tables.grid import Ladder, Points
from ..numerics import reweighted
from ..rows import Rows, point_medians
from .estimator import Millis, SceneModel

TREES = 300
PARAMETERS: dict[str, Any] = {
    "objective": "regression",
    "learning_rate": 0.08,
    "num_leaves": 15,
    "min_data_in_leaf": 5,
    "monotone_constraints_method": "advanced",
    # The same model on any number of cores, and again tomorrow.
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "seed": 0,
    "verbosity": -1,
}


@dataclass(frozen=True, slots=True)
class BoostedCurve:
    """exp of a LightGBM model over `inputs`; piecewise constant."""

    booster: Any

    def total_ms(self, points: Points) -> Millis:
        return np.exp(np.asarray(self.booster.predict(inputs(points)), dtype=np.float64))


def inputs(points: Points) -> NDArray[np.float64]:
    """Shape (points, 7): n, k, c, u, and what time follows: n + c, n k, c (u + c / 2). All only grow with work."""
    n, k, c, u = points.T.astype(np.float64)
    return np.column_stack([n, k, c, u, n + c, n * k, c * (u + c / 2)])


def boosted(rows: Rows, ladders: Mapping[Scene, Ladder]) -> dict[Scene, SceneModel]:
    """One model over all scenes, read in each scene of `ladders`."""
    medians = point_medians(rows)
    x, y = inputs(medians.points), np.log(medians.latency_ms)
    parameters = {**PARAMETERS, "monotone_constraints": [1] * x.shape[1]}
    booster = reweighted(
        lambda weight: boost(x, y, weight, parameters, TREES),
        lambda trees: y - np.asarray(trees.predict(x)),
        len(y),
    )
    curve = BoostedCurve(booster)
    shown = {"trees": float(booster.num_trees())}
    return {scene: SceneModel(curve, shown) for scene in ladders}


def boost(
    x: NDArray[np.float64], y: NDArray[np.float64], weight: NDArray[np.float64], parameters: dict[str, Any], trees: int
) -> Any:
    """A trained LightGBM Booster. Raises FitError with what LightGBM says."""
    import lightgbm

    data = lightgbm.Dataset(x, y, weight=weight, params={"verbosity": -1}, free_raw_data=True)
    try:
        return lightgbm.train(parameters, data, num_boost_round=trees)
    except lightgbm.basic.LightGBMError as error:
        raise FitError(f"LightGBM on {len(y)} points: {error}; use another --fitter or profile more points") from error
