"""Which batches a profile measured: the boxes of a table that have fit and calibration rows in and around them.

A plan draws its points over the whole domain, so all of it counts as measured. A log holds what was served: ranges of
decodes, contexts, chunks or prefixes may be missing, alone or beside each other. In four dimensions nearly every box is
empty by chance. So a box counts as measured where every pair of its coordinates was seen together: the box of the two
coordinates holds fit rows or lies between boxes that do, and both sessions have rows around it. Beside that some fit
row lies within REACH boxes on all axes.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from ..profiler.profile import Profile
from ..tables.batch import AXES, Scene
from ..tables.domain import Domain
from ..tables.grid import Points
from ..tables.support import SCENE_COLUMNS, Support
from .knots import lies_on_grid, log_knots
from .rows import Rows

# Ratio of the edges of neighbouring boxes. Finer ones leave a thousand rows of a scene with boxes that are empty by
# chance.
BOX_RATIO = (2.0, 4.0, 2.0, 4.0)
FIRST_EDGE = (1, 16, 1, 64)
HOLE_RATIO = 4.0  # neighbouring values of one coordinate this far apart leave a hole between them
FIT_ROWS_AROUND = 3  # of a pair's box and its eight neighbours
CALIBRATION_ROWS_AROUND = 1
REACH = 3

Flags = NDArray[np.bool_]


def measured_support(profile: Profile, fit_rows: Rows, calibrate: Rows) -> Support | None:
    """The boxes that a profile measured; None where it was planned, so that all of its domain was.

    fit_rows, calibrate: rows of the two sessions, of the fitted scenes.
    """
    domain = profile.meta.domain
    if profile.meta.imported is None:
        return None
    edges = {axis: _edges(column, fit_rows, domain) for column, axis in enumerate(AXES)}
    empty = Support(edges, {})
    measured = {
        scene: _measured(empty, scene, fit_rows.scene(scene).points, calibrate.scene(scene).points)
        for scene in fit_rows.scenes()
    }
    if all(_all_inside(empty, scene, boxes, domain) for scene, boxes in measured.items()):
        return None
    return Support(edges, measured)


def calibration_rows(rows: Rows, support: Support | None, domain: Domain, needed: int) -> Rows:
    """The rows that a bound is calibrated on: those whose batches were measured, where there are `needed` of them.

    Else also those that are answered by order. Their bound is that of a batch with more work, so they would only hide
    misses of the others where these are enough.
    """
    if support is None:
        return rows
    measured, answered = np.ones(len(rows), dtype=bool), np.ones(len(rows), dtype=bool)
    for unmeasured, corners in support.unmeasured(rows.points):
        measured[unmeasured] = False
        above = [domain.contains(np.maximum(rows.points[unmeasured], corner)) for corner in corners]
        answered[unmeasured] = np.any(above, axis=0) if above else False
    return rows.where(measured if measured.sum() >= needed else answered)


def _edges(column: int, rows: Rows, domain: Domain) -> tuple[int, ...]:
    """Upper edges of the boxes along one axis: regular ones, and in each scene the ends of what was seen and of holes.

    Where the points lie on a grid each of its values ends a box.
    """
    limit = int(getattr(domain, f"max_{AXES[column]}"))
    first = 0 if column == 3 else 1
    seen = [np.unique(rows.scene(s).points[:, column]) for s in rows.scenes() if column in SCENE_COLUMNS[s]]
    if not seen or not limit:
        return (limit,)
    gridded = lies_on_grid(rows.points)
    regular = log_knots(FIRST_EDGE[column], limit, BOX_RATIO[column])
    lowest = min(int(values[0]) for values in seen)
    edges = {limit, *(np.concatenate(seen).tolist() if gridded else regular)}
    for values in seen:
        low, high = values[:-1], values[1:]
        holes = (high > HOLE_RATIO * np.maximum(low, FIRST_EDGE[column])) & (not gridded)
        edges |= {*low[holes].tolist(), *(high[holes] - 1).tolist(), int(values[0]) - 1}
    return tuple(sorted(edge for edge in edges if edge >= max(first, lowest - 1)))


def _measured(support: Support, scene: Scene, fit_points: Points, calibrate_points: Points) -> Flags:
    """Which boxes of a scene count as measured, in the shape of its boxes."""
    shape = support.shape(scene)
    fit_boxes, calibrate_boxes = (support.box_of(points, scene) for points in (fit_points, calibrate_points))
    measured = np.ones(shape, dtype=bool)
    for one, other in combinations(range(len(shape)), 2):
        sides = (shape[one], shape[other])
        fitted, held = (np.zeros(sides, dtype=np.int64) for _ in range(2))
        np.add.at(fitted, (fit_boxes[one], fit_boxes[other]), 1)
        np.add.at(held, (calibrate_boxes[one], calibrate_boxes[other]), 1)
        seen = _bridged(fitted > 0)
        for counts, least in ((fitted, FIT_ROWS_AROUND), (held, CALIBRATION_ROWS_AROUND)):
            seen &= ndimage.convolve(counts, np.ones((3, 3), dtype=np.int64), mode="constant") >= least
        place = [1] * len(shape)
        place[one], place[other] = sides
        measured &= seen.reshape(place)
    near = np.zeros(shape, dtype=bool)
    near[fit_boxes] = True
    measured &= ndimage.maximum_filter(near, size=2 * REACH + 1, mode="constant")
    return measured


def _bridged(seen: Flags) -> Flags:
    """With the boxes between two that were seen, one box apart on one axis."""
    bridged = seen.copy()
    for axis in range(seen.ndim):
        low, high = np.roll(seen, 1, axis), np.roll(seen, -1, axis)
        between = np.moveaxis(low & high, axis, 0)
        between[[0, -1]] = False  # np.roll joins the ends
        bridged |= np.moveaxis(between, 0, axis)
    return bridged


def _all_inside(support: Support, scene: Scene, boxes: Flags, domain: Domain) -> bool:
    """Whether every box that holds a batch of the domain was measured."""
    missing = np.argwhere(~boxes)
    corners = np.asarray([support.lowest(scene, tuple(map(int, box))) for box in missing], dtype=np.int64)
    return not len(missing) or not domain.contains(corners.reshape(-1, 4)).any()
