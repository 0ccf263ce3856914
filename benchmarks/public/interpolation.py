"""Between measured medians of one scene, in AIConfigurator's way: the nearest one, or linear in the raw numbers.

Where points lie on a grid, missing cells are first filled by lines along each axis between measured neighbours (the
mean over the axes that have both), and a point is read between the corners of its cell. Scattered points are joined
by Delaunay's triangles. Outside, the nearest holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import LinearNDInterpolator, RegularGridInterpolator
from scipy.spatial import cKDTree

from chunkfit.fitters.rows import Rows, point_medians
from chunkfit.tables.grid import Points

Floats = NDArray[np.float64]
Interpolated = Callable[[Points], Floats]
SPARSE = 8  # cells per measured point above which points are no grid


def nearest(rows: Rows) -> Interpolated:
    """By the logarithms of n, k, c, u, so that 1 and 2 are as far as 1000 and 2000."""
    known = _batch_medians(rows)
    tree = cKDTree(np.log1p(known.points))
    return lambda points: known.latency_ms[tree.query(np.log1p(points))[1]]


def interpolated(rows: Rows) -> Interpolated:
    """Linear between measured medians."""
    known = _batch_medians(rows)
    varies = [axis for axis in range(4) if len(np.unique(known.points[:, axis])) > 1]
    if not varies:
        return lambda points: np.full(len(points), np.median(known.latency_ms))
    axes = [np.unique(known.points[:, axis]).astype(np.float64) for axis in varies]
    if np.prod([len(axis) for axis in axes]) <= SPARSE * len(known):
        return _gridded(known, varies, axes)
    return _scattered(known, varies)


def _batch_medians(rows: Rows) -> Rows:
    """One row for each (n, k, c, u), also where a log counts every row as a point."""
    _, ids = np.unique(rows.points, axis=0, return_inverse=True)
    return point_medians(replace(rows, point_id=ids.ravel().astype(np.int64)))


def _gridded(known: Rows, varies: list[int], axes: list[Floats]) -> Interpolated:
    cells = np.full([len(axis) for axis in axes], np.nan)
    place = tuple(np.searchsorted(axis, known.points[:, v]) for axis, v in zip(axes, varies, strict=True))
    cells[place] = known.latency_ms
    read = RegularGridInterpolator(axes, _filled(cells, axes, nearest(known), varies, known.points[0]))
    low, high = ([axis[end] for axis in axes] for end in (0, -1))
    return lambda points: read(np.clip(points[:, varies], low, high))


def _filled(cells: Floats, axes: list[Floats], otherwise: Interpolated, varies: list[int], any_point: Points) -> Floats:
    while np.isnan(cells).any():
        lines = np.stack([_along(cells, axis, dim) for dim, axis in enumerate(axes)])
        count = (~np.isnan(lines)).sum(axis=0)
        found = np.nansum(lines, axis=0) / np.maximum(count, 1)
        new = np.isnan(cells) & (count > 0)
        if not new.any():
            break
        cells = np.where(new, found, cells)
    missing = np.argwhere(np.isnan(cells))
    points = np.tile(any_point, (len(missing), 1))
    for dim, axis in enumerate(axes):
        points[:, varies[dim]] = axis[missing[:, dim]]
    if len(missing):
        cells[tuple(missing.T)] = otherwise(points)
    return cells


def _along(cells: Floats, axis: Floats, dim: int) -> Floats:
    """Each missing cell on the line between its neighbours along one axis; NaN where one of them is missing."""
    lines = np.moveaxis(cells, dim, -1).reshape(-1, len(axis))
    found = np.full(lines.shape, np.nan)
    for line, out in zip(lines, found, strict=True):
        known = ~np.isnan(line)
        if known.any():
            out[:] = np.interp(axis, axis[known], line[known], left=np.nan, right=np.nan)
    moved = np.moveaxis(cells, dim, -1).shape
    return np.moveaxis(found.reshape(moved), -1, dim)


def _scattered(known: Rows, varies: list[int]) -> Interpolated:
    close = nearest(known)
    if len(varies) == 1:
        order = np.argsort(known.points[:, varies[0]])
        x, y = known.points[order, varies[0]], known.latency_ms[order]
        return lambda points: np.interp(points[:, varies[0]], x, y)
    if len(known) < 4 * len(varies):
        return close
    read = LinearNDInterpolator(known.points[:, varies].astype(np.float64), known.latency_ms, rescale=True)

    def predict(points: Points) -> Floats:
        found = np.asarray(read(points[:, varies]))
        return np.where(np.isnan(found), close(points), found)

    return predict
