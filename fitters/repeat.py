"""The fit of a table done again from its profile: does it give the same bounds, and what did closure add where?

A table stores no bound before closure, so a map of the gap needs the fit again: the estimator and the shape of the
noise that the document names, its margins, no selection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..files.errors import FitError
from ..profiler.profile import Profile
from ..tables.arrays import TableArrays, from_document
from ..tables.batch import Scene
from ..tables.closure import read_surface
from ..tables.grid import node_points, scene_of
from ..tables.schema_v1 import TableV1
from .build import build_chosen
from .estimators.registry import ESTIMATORS
from .gap import closed_over_unclosed
from .margin import centred, session_drift
from .numerics import one_blas_thread
from .rows import held_out, rows_of, shared_rows


@dataclass(frozen=True, slots=True)
class Repeat:
    """gaps: by scene, closed bound over unclosed less one at every base node, shape of the base.

    worst_difference: largest relative difference between a node's bound here and in the table; 0: to the tick.
    """

    gaps: Mapping[Scene, NDArray[np.float64]]
    worst_difference: float


@one_blas_thread
def repeated(table: TableV1, profile: Profile) -> Repeat:
    """Raises FitError when the table names an estimator or margins that are not to be had here, or has other knots."""
    name, options = table.fitter.name, table.fitter.options
    scale, steps = options.get("scale"), options.get("step_totals")
    multipliers = {part.scene: part.factor for part in table.margin if part.name == "noise"}
    if name not in ESTIMATORS or scale is None or steps is None or not set(table.scenes) <= multipliers.keys():
        raise FitError(
            f"fitter {name!r}, scale {scale!r}: cannot be fitted again; expected one of {', '.join(ESTIMATORS)}, its "
            "scale and steps, and a noise margin for each scene: fit the table with this version"
        )
    stored = from_document(table, "table")
    drift = session_drift(shared_rows(profile), held_out(profile, "calibrate", stored.ladders))
    rows = rows_of(profile, "fit")
    rows = centred(rows.where(np.isin(scene_of(rows.points), [scene.value for scene in table.scenes])), drift)
    built = build_chosen(rows, table.domain, tuple(steps), ESTIMATORS[name], scale)
    if built.axes != stored.axes or built.ladders != stored.ladders:
        raise FitError("the table has other knots than this version makes: fit the table again with this version")
    factors = {scene: factor for scene, factor in multipliers.items() if scene is not None and factor is not None}
    unclosed = built.unclosed(factors, table.factors.session_drift or 1.0)
    closed = built.closed(unclosed)
    gaps = {
        scene: (closed_over_unclosed(closed, unclosed, scene, node_points(closed.axes, scene)) - 1).reshape(
            closed.axes.shape(scene)
        )
        for scene in closed.ladders
    }
    return Repeat(gaps, max(_difference(stored, closed, scene) for scene in gaps))


def _difference(stored: TableArrays, fresh: TableArrays, scene: Scene) -> float:
    points = node_points(stored.axes, scene)
    here, there = (
        read_surface(arrays.axes, scene, arrays.ladders[scene], arrays.bound[scene], points)
        for arrays in (stored, fresh)
    )
    return float(np.max(np.abs(there - here) / here))
