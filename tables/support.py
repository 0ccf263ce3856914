"""Where a table was measured: boxes of (n, k, c, u) for each scene, and the answers that follow for every batch.

A batch in a measured box is read from the surface. Elsewhere the time is taken from the measured batches with at least
as much work in every coordinate, since time never falls with work; where there is none, nothing is known. So every
answer is of one of three kinds, and none of them is an extrapolation of a model.

Boxes are half-open: the last edge below a coordinate is excluded, the next one included, so the integers fall into one
box each and a box begins one above the edge before it. All scenes share the edges. The answer is monotone: a batch with
more work has fewer boxes above it, and within a box the surface itself is monotone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from .batch import AXES, SCENES, Scene
from .grid import Points, scene_codes
from .lookup import MEASURED, OUTSIDE

# The columns of a point that vary in a scene: its boxes have these axes.
SCENE_COLUMNS: dict[Scene, tuple[int, ...]] = {Scene.DECODE: (0, 1), Scene.PREFILL: (2, 3), Scene.MIXED: (0, 1, 2, 3)}

Box = tuple[int, ...]  # indices along the axes of its scene
Corner = tuple[int, int, int, int]  # the least n, k, c, u of a box


class SupportKind(StrEnum):
    """What an answer rests on."""

    MEASURED = "measured"
    BY_ORDER = "by order"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Support:
    """Which boxes were measured.

    edges: of n, k, c and u, the upper edge of each box, increasing; the last one is the domain's limit.
    measured: for each scene of the table, bool of the shape of its boxes, axes in the order n, k, c, u.
    """

    edges: Mapping[str, tuple[int, ...]]
    measured: Mapping[Scene, NDArray[np.bool_]]

    def shape(self, scene: Scene) -> tuple[int, ...]:
        """How many boxes the scene has along each of its axes."""
        return tuple(len(self.edges[AXES[column]]) for column in SCENE_COLUMNS[scene])

    def box_of(self, points: Points, scene: Scene) -> tuple[NDArray[np.int64], ...]:
        """Index of the box of each point along every axis of the scene, each of shape (points,)."""
        columns = SCENE_COLUMNS[scene]
        return tuple(np.searchsorted(self.edges[AXES[column]], points[:, column]) for column in columns)

    def lowest(self, scene: Scene, box: Box) -> Corner:
        """The least n, k, c, u of a box; 0 on the axes that the scene has not."""
        corner = [0, 0, 0, 0]
        for column, index in zip(SCENE_COLUMNS[scene], box, strict=True):
            first = 0 if column == 3 else 1
            corner[column] = self.edges[AXES[column]][index - 1] + 1 if index else first
        return corner[0], corner[1], corner[2], corner[3]

    def nodes(self, start: int) -> list[int]:
        """The support as `lookup.boxes_above` reads it, to be placed at node `start`.

        Nine nodes say where the parts begin: the edges of n, k, c and u and their end, the boxes of the three scenes,
        and how many boxes c and u have together. A box holds MEASURED, OUTSIDE or the node of its list: how many
        measured boxes lie above it, and the lowest corner of each.
        """
        starts = [start + 9]
        parts: list[int] = []
        for axis in AXES:
            parts += self.edges[axis]
            starts.append(start + 9 + len(parts))
        lists: dict[tuple[Corner, ...], int] = {}
        places = []
        for scene in SCENES:
            starts.append(start + 9 + len(parts))
            places.append((len(parts), scene))
            parts += [OUTSIDE] * int(np.prod(self.shape(scene)))
        starts.append(len(self.edges[AXES[2]]) * len(self.edges[AXES[3]]))
        for first, scene in places:
            for number, box in enumerate(np.ndindex(self.shape(scene))):
                corners = self.above[scene, box]
                if self.is_measured(scene, box):
                    parts[first + number] = MEASURED
                elif corners:
                    if corners not in lists:
                        lists[corners] = start + 9 + len(parts)
                        parts += [len(corners), *(value for corner in corners for value in corner)]
                    parts[first + number] = lists[corners]
        return [*starts, *parts]

    def unmeasured(self, points: Points) -> Iterator[tuple[NDArray[np.int64], tuple[Corner, ...]]]:
        """Rows of `points` that share a box which was not measured, and the lowest corners of the boxes above it."""
        codes = scene_codes(points)
        for code in np.unique(codes).tolist():
            scene, here = SCENES[code], np.flatnonzero(codes == code)
            shape = self.shape(scene)
            numbers = np.ravel_multi_index(self.box_of(points[here], scene), shape)
            for number in np.unique(numbers).tolist():
                box = tuple(map(int, np.unravel_index(number, shape)))
                if not self.is_measured(scene, box):
                    yield here[numbers == number], self.above[scene, box]

    def is_measured(self, scene: Scene, box: Box) -> bool:
        return scene in self.measured and bool(self.measured[scene][box])

    def pinned(self) -> dict[str, int]:
        """Axes of which a single value was measured, with that value."""
        values: dict[str, set[tuple[int, int]]] = {}
        for scene, boxes in self.measured.items():
            for axis, column in enumerate(SCENE_COLUMNS[scene]):
                edges = self.edges[AXES[column]]
                seen = np.flatnonzero(boxes.any(axis=tuple(a for a in range(boxes.ndim) if a != axis)))
                spans = {(edges[i - 1] + 1 if i else (0 if column == 3 else 1), edges[i]) for i in seen.tolist()}
                values.setdefault(AXES[column], set()).update(spans)
        found = {axis: next(iter(spans)) for axis, spans in values.items() if len(spans) == 1}
        return {axis: low for axis, (low, high) in found.items() if low == high}

    @cached_property
    def above(self) -> dict[tuple[Scene, Box], tuple[Corner, ...]]:
        """Of every box the lowest corners of the measured boxes above it, without those that have another below them.

        From the top down: what lies above a box lies above one of its upper neighbours, or is that neighbour.
        """
        above: dict[tuple[Scene, Box], tuple[Corner, ...]] = {}
        for scene in (Scene.MIXED, Scene.PREFILL, Scene.DECODE):
            for box in product(*(range(count - 1, -1, -1) for count in self.shape(scene))):
                if self.is_measured(scene, box):
                    above[scene, box] = (self.lowest(scene, box),)
                else:
                    corners = {corner for one in self._upper_neighbours(scene, box) for corner in above[one]}
                    above[scene, box] = _lowest_of(corners)
        return above

    def _upper_neighbours(self, scene: Scene, box: Box) -> Iterator[tuple[Scene, Box]]:
        """The next box along each axis, and the first mixed box with the same coordinates."""
        for axis, count in enumerate(self.shape(scene)):
            if box[axis] + 1 < count:
                yield scene, (*box[:axis], box[axis] + 1, *box[axis + 1 :])
        if scene is not Scene.MIXED:
            yield Scene.MIXED, (*box, 0, 0) if scene is Scene.DECODE else (0, 0, *box)


def _lowest_of(corners: set[Corner]) -> tuple[Corner, ...]:
    """Those that are above no other one in all four coordinates."""
    kept = [
        corner
        for corner in corners
        if not any(other != corner and all(a <= b for a, b in zip(other, corner, strict=True)) for other in corners)
    ]
    return tuple(sorted(kept))
