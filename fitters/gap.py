"""What monotonicity costs: the closed bound beside the bound before closure.

"No falling step" says nothing about a table that was closed by a running maximum; the gap does.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..tables.arrays import TableArrays
from ..tables.batch import Scene
from ..tables.closure import read_surface
from ..tables.grid import Points, Surface, node_points, scene_of, to_ms
from ..tables.schema_v1 import GapV1
from .rows import Rows
from .surfaces import SceneSurfaces


def majorant_gap(
    arrays: TableArrays, unclosed: Mapping[Scene, Surface], surfaces: Mapping[Scene, SceneSurfaces], test: Rows
) -> GapV1:
    """Gap over the test rows and over measured nodes, and the share of measured neighbours that fell."""
    names = scene_of(test.points)
    ratio = np.ones(len(test))
    worst, where = 0.0, None
    pairs = falls = 0
    for scene in test.scenes():
        here = names == scene.value
        ratio[here] = closed_over_unclosed(arrays, unclosed, scene, test.points[here])
        nodes = node_points(arrays.axes, scene)[arrays.measured[scene].ravel()]
        if len(nodes):
            over = closed_over_unclosed(arrays, unclosed, scene, nodes)
            if over.max() - 1 > worst:
                worst = float(over.max() - 1)
                where = dict(zip(("n", "k", "c", "u"), nodes[int(over.argmax())].tolist(), strict=True))
        raw_nodes = surfaces[scene].raw
        for values, measured in (
            (raw_nodes.ladder, raw_nodes.ladder_measured),
            (raw_nodes.base, raw_nodes.base_measured),
        ):
            for axis in range(values.ndim):
                both = np.logical_and(np.delete(measured, -1, axis=axis), np.delete(measured, 0, axis=axis))
                pairs += int(both.sum())
                falls += int((both & (np.diff(values, axis=axis) < 0)).sum())
    return GapV1(
        mean_percent=float(100 * (ratio - 1).mean()),
        p99_percent=float(100 * np.quantile(ratio - 1, 0.99)),
        max_node_percent=100 * worst,
        where=where,
        inversions=falls / pairs if pairs else None,
    )


def closed_over_unclosed(
    arrays: TableArrays, unclosed: Mapping[Scene, Surface], scene: Scene, points: Points
) -> NDArray[np.float64]:
    """Bound over the bound before closure at each point of a scene, shape (points,)."""
    closed, raw = (
        to_ms(read_surface(arrays.axes, scene, arrays.ladders[scene], surface, points))
        for surface in (arrays.bound[scene], unclosed[scene])
    )
    return closed / raw
