"""The expected time of a table before it is fitted, for the choice of points between rounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..tables.batch import SCENES
from ..tables.closure import read_surface
from ..tables.domain import Domain
from ..tables.grid import Points, scene_of, to_ms
from .estimators.registry import ESTIMATORS
from .knots import axes_for, ladder_for
from .node_residuals import SceneGrid
from .noise import Proportional
from .numerics import one_blas_thread
from .rows import Rows
from .surfaces import scene_surfaces

# Smoothness of the corrections, which `fit` chooses by cross-validation in 15 times as long.
STRENGTH = 30.0
MIN_SCENE_POINTS = 20  # with fewer a scene is predicted by its model alone


@dataclass(frozen=True, slots=True)
class TablePredictor:
    """Fits as `fit` does up to the closed expected time, and reads it as the table will be read.

    So what a round sees is the error of the shipped table: of the estimator and of the residuals on its nodes.
    """

    domain: Domain
    step_totals: tuple[int, ...]
    fitter: str = "scene_experts"

    @one_blas_thread
    def __call__(self, points: Points, latency_ms: NDArray[np.float64], queries: Points) -> NDArray[np.float64]:
        """See `tables.predictor.Predictor`."""
        rows = Rows(points, latency_ms, np.arange(len(points)), np.zeros(len(points), dtype=np.bool_))
        axes = axes_for(self.domain, points)
        ladders = {scene: ladder_for(self.domain, scene, self.step_totals) for scene in SCENES}
        models = ESTIMATORS[self.fitter](rows, ladders)
        expected = np.empty(len(queries))
        names = scene_of(queries)
        for scene, ladder in ladders.items():
            here = names == scene.value
            scene_rows = rows.scene(scene)
            if len(scene_rows) < MIN_SCENE_POINTS:
                expected[here] = models[scene].expected_ms(queries[here])
                continue
            grid = SceneGrid(axes, scene, ladder, self.step_totals)
            surfaces = scene_surfaces(grid, models[scene], scene_rows, Proportional(), STRENGTH)
            expected[here] = to_ms(read_surface(axes, scene, ladder, surfaces.expected, queries[here]))
        return expected
