"""A table document as integer arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..files.errors import OutOfDomainError
from .batch import AXES, SCENES, Scene
from .closure import read_surface
from .domain import Domain
from .grid import Axes, Ladder, Points, Surface, Ticks, nearest_ticks, scene_of, to_ms
from .lookup import OUTSIDE, WEIGHT_ONE, FlatTable, Head
from .schema_v1 import AxesV1, AxisV1, BaseV1, LadderV1, SceneV1, TableV1


@dataclass(frozen=True, slots=True)
class TableArrays:
    """Everything a look-up reads. measured: bool, shape of the scene's base."""

    axes: Axes
    ladders: Mapping[Scene, Ladder]
    expected: Mapping[Scene, Surface]
    bound: Mapping[Scene, Surface]
    measured: Mapping[Scene, NDArray[np.bool_]]

    @classmethod
    def of(cls, table: TableV1) -> TableArrays:
        """The arrays of a document, which its model has checked."""
        axes = Axes(**{name: tuple(getattr(table.axes, name).knots) for name in AXES})
        ladders = {
            scene: Ladder(tuple(stored.ladder.batch_tokens), stored.ladder.between)
            for scene, stored in table.scenes.items()
        }

        def surfaces(key: str) -> dict[Scene, Surface]:
            return {
                scene: Surface(
                    nearest_ticks(np.asarray(getattr(stored.ladder, key))),
                    nearest_ticks(np.asarray(getattr(stored.base, key))).reshape(axes.shape(scene)),
                )
                for scene, stored in table.scenes.items()
            }

        measured = {
            scene: np.asarray(stored.base.measured, dtype=bool).reshape(axes.shape(scene))
            for scene, stored in table.scenes.items()
        }
        return cls(axes, ladders, surfaces("expected_ms"), surfaces("bound_ms"), measured)

    def read_ticks(self, points: Points) -> tuple[Ticks, Ticks]:
        """(expected, bound) in ticks, each of shape (points,), for points (n, k, c, u) inside the domain.

        Raises OutOfDomainError when a scene among them was not measured.
        """
        expected, bound = np.empty((2, len(points)), dtype=np.int64)
        names = scene_of(points)
        for name in np.unique(names):
            scene, here = Scene(str(name)), names == name
            if scene not in self.ladders:
                raise OutOfDomainError(f"scene {scene.value} was not measured; the table has {list_scenes(self)}")
            for out, surfaces in ((expected, self.expected), (bound, self.bound)):
                out[here] = read_surface(self.axes, scene, self.ladders[scene], surfaces[scene], points[here])
        return expected, bound

    def read(self, points: Points) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """`read_ticks` in ms."""
        expected, bound = self.read_ticks(points)
        return to_ms(expected), to_ms(bound)

    def flat(self, surfaces: Mapping[Scene, Surface], domain: Domain, unequal: int, several: int) -> FlatTable:
        """`surfaces` (expected or bound) for look-ups, nodes as a list. unequal, several: factors in 1/4096."""
        axes = self.axes
        nodes: list[int] = []
        ends = []
        for knots in (axes.decodes, axes.context_tokens, axes.chunk_tokens, axes.prefix_tokens):
            nodes += knots
            ends.append(len(nodes))
        starts = []
        for scene in SCENES:
            starts += [OUTSIDE, OUTSIDE]
            if scene in surfaces:
                ladder = self.ladders[scene].dense(surfaces[scene].ladder, domain.max_decodes + domain.max_chunk_tokens)
                starts[-2:] = len(nodes), len(nodes) + len(ladder)
                nodes += [*ladder.tolist(), *surfaces[scene].base.ravel().tolist()]
        prefix_stride = len(axes.chunk_tokens)
        context_stride = prefix_stride * len(axes.prefix_tokens)
        strides = (context_stride * len(axes.context_tokens), context_stride, prefix_stride)
        limits = (getattr(domain, name) for name in Domain.model_fields)
        head = Head._make([*ends, *strides, *starts, *limits, unequal, several, WEIGHT_ONE])
        return FlatTable(nodes, (head,))


def list_scenes(arrays: TableArrays) -> str:
    """Names of the measured scenes, for messages."""
    return ", ".join(scene.value for scene in SCENES if scene in arrays.ladders)


def axes_document(axes: Axes) -> AxesV1:
    return AxesV1(**{name: AxisV1(knots=list(axes.knots(name)), between="linear") for name in AXES})


def scenes_document(arrays: TableArrays) -> dict[Scene, SceneV1]:
    """The `scenes` object of a document. Exact: ticks are powers of two."""
    return {
        scene: SceneV1(
            ladder=LadderV1(
                batch_tokens=list(ladder.batch_tokens),
                between="up" if ladder.between == "up" else "linear",
                expected_ms=to_ms(arrays.expected[scene].ladder).tolist(),
                bound_ms=to_ms(arrays.bound[scene].ladder).tolist(),
            ),
            base=BaseV1(
                expected_ms=to_ms(arrays.expected[scene].base).ravel().tolist(),
                bound_ms=to_ms(arrays.bound[scene].base).ravel().tolist(),
                measured=arrays.measured[scene].astype(int).ravel().tolist(),
            ),
        )
        for scene, ladder in arrays.ladders.items()
    }
