"""A coarse grid of log-spaced cells over each scene: where the adaptive plan looks for what it does not know."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..tables.batch import SCENES, Scene
from ..tables.domain import Domain
from ..tables.grid import Points, scene_of
from .law import AXES, Point, U, axis_range

# Per axis: 25 cells in decode and in prefill, 81 in mixed.
DIVISIONS = {Scene.DECODE: 5, Scene.PREFILL: 5, Scene.MIXED: 3}
NEAR = 0.5  # what a point in the next cell counts for the error of this one


@dataclass(frozen=True)
class Cells:
    """Numbered scene by scene, the last axis of a scene fastest. A prefix of 0 is in the cell of the shortest."""

    domain: Domain

    @property
    def count(self) -> int:
        return len(self.scenes)

    @cached_property
    def first(self) -> dict[Scene, int]:
        """Number of each scene's first cell."""
        return {scene: int(np.argmax(self.scenes == index)) for index, scene in enumerate(SCENES)}

    def edges(self, scene: Scene, axis: int) -> NDArray[np.float64]:
        """DIVISIONS + 1 ends of an axis, evenly spaced in the logarithm."""
        low, high = axis_range(self.domain, axis)
        return np.geomspace(max(low, 1), max(high, 1) + 1, DIVISIONS[scene] + 1)

    def of(self, points: Points) -> NDArray[np.int64]:
        """Number of the cell of each point (points, 4)."""
        numbers = np.zeros(len(points), dtype=np.int64)
        names = scene_of(points)
        for scene in SCENES:
            here = names == scene.value
            if not here.any():
                continue
            place = np.zeros(int(here.sum()), dtype=np.int64)
            for axis in AXES[scene]:
                inner = self.edges(scene, axis)[1:-1]
                place = place * DIVISIONS[scene] + np.searchsorted(inner, points[here, axis], side="right")
            numbers[here] = self.first[scene] + place
        return numbers

    @cached_property
    def scenes(self) -> NDArray[np.int64]:
        """(cells,): the scene of each, as its place in SCENES."""
        return np.repeat(np.arange(len(SCENES)), [DIVISIONS[scene] ** len(AXES[scene]) for scene in SCENES])

    def scene(self, cell: int) -> Scene:
        return SCENES[int(self.scenes[cell])]

    def box(self, cell: int) -> tuple[Point, Point]:
        """Smallest and largest (n, k, c, u) of a cell, whole tokens."""
        scene = self.scene(cell)
        place, low, high = cell - self.first[scene], [0] * 4, [0] * 4
        for axis in reversed(AXES[scene]):
            place, step = divmod(place, DIVISIONS[scene])
            edges = self.edges(scene, axis)
            low[axis], high[axis] = int(np.ceil(edges[step])), int(np.ceil(edges[step + 1])) - 1
            if axis == U and step == 0:
                low[axis] = 0
        return (low[0], low[1], low[2], low[3]), (high[0], high[1], high[2], high[3])

    def title(self, cell: int) -> str:
        """The cell for people, as `decode n 1-2 k 16-55`."""
        low, high = self.box(cell)
        scene = self.scene(cell)
        return " ".join([scene.value, *(f"{'nkcu'[axis]} {low[axis]}-{high[axis]}" for axis in AXES[scene])])

    @cached_property
    def nearness(self) -> NDArray[np.float64]:
        """(cells, cells): 1 on the diagonal, NEAR where two share a face."""
        matrix = np.eye(self.count)
        for scene in SCENES:
            width, axes = DIVISIONS[scene], len(AXES[scene])
            place = np.stack(np.unravel_index(np.arange(width**axes), (width,) * axes), axis=1)
            apart = np.abs(place[:, None, :] - place[None, :, :]).sum(axis=2)
            block = slice(self.first[scene], self.first[scene] + len(place))
            matrix[block, block] += np.where(apart == 1, NEAR, 0.0)
        return matrix
