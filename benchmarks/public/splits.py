"""Which rows are asked about and which are learnt from. Every split is made from its seed alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from chunkfit.fitters.rows import Rows
from chunkfit.tables.batch import Scene
from chunkfit.tables.grid import scene_of

SHARE = 0.2
TIME_SHARE = 0.6
Mask = NDArray[np.bool_]


def random_mixed(rows: Rows, seed: int) -> Mask:
    """A fifth of the mixed points."""
    return _points(rows, scene_of(rows.points) == Scene.MIXED.value, seed)


def random_points(rows: Rows, seed: int) -> Mask:
    """A fifth of the points."""
    return _points(rows, np.ones(len(rows), dtype=np.bool_), seed)


def random_rows(rows: Rows, seed: int) -> Mask:
    """A fifth of a log's steps: of the same batch some may be learnt from, as in its next hour."""
    return _drawn(np.arange(len(rows)), len(rows), seed)


def third_values(rows: Rows, seed: int) -> Mask:
    """Mixed rows of every third value of one axis that varies, never of its outermost values.

    The seed chooses axis and offset: six seeds see each axis, and where two vary with each offset.
    """
    mixed = scene_of(rows.points) == Scene.MIXED.value
    values = [np.unique(rows.points[mixed, axis]) for axis in range(4)]
    axes = [axis for axis in range(4) if len(values[axis]) > 3]
    axis = axes[seed % len(axes)]
    place = np.searchsorted(values[axis], rows.points[:, axis])
    offset = seed % 3
    inside = (place > 0) & (place < len(values[axis]) - 1)
    return mixed & inside & (place % 3 == offset)


def last_part(rows: Rows, seed: int) -> Mask:
    """The last 40% of a log: the past answers for the future. There is one such split, whatever the seed."""
    return np.arange(len(rows)) >= round(TIME_SHARE * len(rows))


def replicates(rows: Rows, seed: int) -> Mask:
    """A fifth of the repeats of every point, rounded up; one at least is learnt from."""
    held = np.zeros(len(rows), dtype=np.bool_)
    rng = np.random.default_rng(seed)
    for point in np.unique(rows.point_id):
        here = np.flatnonzero(rows.point_id == point)
        held[rng.permutation(here)[: min(-(-len(here) // 5), len(here) - 1)]] = True
    return held


def _points(rows: Rows, among: Mask, seed: int) -> Mask:
    ids = np.unique(rows.point_id[among])
    return among & np.isin(rows.point_id, ids[_drawn(np.arange(len(ids)), len(ids), seed)])


def _drawn(places: NDArray[np.int64], count: int, seed: int) -> Mask:
    return np.isin(places, np.random.default_rng(seed).permutation(count)[: round(SHARE * count)])


Split = Callable[[Rows, int], Mask]
SPLITS: dict[str, dict[str, Split]] = {
    "rucnyz": {"random 20%": random_mixed, "every third value": third_values},
    "attention": {"random 20%": random_points, "every third value": third_values},
    "live": {"first 60% -> last 40%": last_part, "random 20%": random_rows},
    "splitwise prompt": {"replicates": replicates},
    "splitwise token": {"replicates": replicates},
}


def seeds_of(split: Split, seeds: int) -> Sequence[int]:
    """The split by time is one; every third value needs six (see there)."""
    return range({last_part: 1, third_values: 6 if seeds > 1 else 1}.get(split, seeds))
