"""A table document as integer arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..files.errors import OutOfDomainError
from .batch import AXES, SCENES, Point, Scene
from .closure import read_surface
from .domain import Domain
from .grid import Axes, Ladder, Points, Surface, Ticks, nearest_ticks, scene_codes, to_ms
from .lookup import OUTSIDE, WEIGHT_ONE, FlatTable, Head
from .schema_v1 import AxesV1, AxisV1, BaseV1, EdgesV1, LadderV1, SceneV1, SupportV1, TableV1
from .support import Support


@dataclass(frozen=True, slots=True)
class TableArrays:
    """Everything a look-up reads.

    measured: bool, shape of the scene's base. support: None where every batch of the domain was measured.
    """

    axes: Axes
    ladders: Mapping[Scene, Ladder]
    expected: Mapping[Scene, Surface]
    bound: Mapping[Scene, Surface]
    measured: Mapping[Scene, NDArray[np.bool_]]
    domain: Domain
    support: Support | None = None

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
        support = None if table.support is None else support_of_document(table.support)
        return cls(axes, ladders, surfaces("expected_ms"), surfaces("bound_ms"), measured, table.domain, support)

    def read_ticks(self, points: Points) -> tuple[Ticks, Ticks]:
        """(expected, bound) in ticks, each of shape (points,), for points (n, k, c, u) inside the domain.

        Raises OutOfDomainError when nothing was measured at or above one of them.
        """
        expected, bound = self._ticks(points)
        unknown = np.flatnonzero(bound == OUTSIDE)
        if unknown.size:
            raise OutOfDomainError(self.not_measured(Point(*points[unknown[0]].tolist())))
        return expected, bound

    def answers(self, points: Points) -> NDArray[np.bool_]:
        """Whether something was measured at or above each of the points inside the domain, shape (points,)."""
        known: NDArray[np.bool_] = self._ticks(points)[1] != OUTSIDE
        return known

    def not_measured(self, point: Point) -> str:
        """The message for a point inside the domain without an answer."""
        if self.support is None:
            return f"scene {point.scene.value} was not measured; the table has {list_scenes(self)}: profile it too"
        return (
            "batch (n {}, k {}, c {}, u {}): ".format(*point)
            + "no batch with as much work in every coordinate was measured; expected one, since a table answers only "
            "for what was measured and for less: profile or log such batches too"
        )

    def _ticks(self, points: Points) -> tuple[Ticks, Ticks]:
        """`read_ticks` with OUTSIDE where there is no answer, as `lookup.ticks` gives it."""
        expected, bound = self._surface_ticks(points)
        for rows, corners in self.support.unmeasured(points) if self.support is not None else ():
            least = np.full((2, len(rows)), OUTSIDE)
            for corner in corners:
                above = np.maximum(points[rows], corner)
                read = np.stack(self._surface_ticks(above))
                better = self.domain.contains(above) & ((least == OUTSIDE) | (read < least))
                least[better] = read[better]
            expected[rows], bound[rows] = least
        return expected, bound

    def _surface_ticks(self, points: Points) -> tuple[Ticks, Ticks]:
        """What the surfaces say, measured or not; OUTSIDE where the scene has none."""
        expected, bound = np.full((2, len(points)), OUTSIDE)
        codes = scene_codes(points)
        for scene, ladder in self.ladders.items():
            here = codes == SCENES.index(scene)
            for out, surfaces in ((expected, self.expected), (bound, self.bound)):
                out[here] = read_surface(self.axes, scene, ladder, surfaces[scene], points[here])
        return expected, bound

    def read(self, points: Points) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """`read_ticks` in ms."""
        expected, bound = self.read_ticks(points)
        return to_ms(expected), to_ms(bound)

    def flat(self, surfaces: Mapping[Scene, Surface], unequal: int, several: int) -> FlatTable:
        """`surfaces` (expected or bound) for look-ups, nodes as a list. unequal, several: factors in 1/4096."""
        axes, domain = self.axes, self.domain
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
        support = OUTSIDE
        if self.support is not None:
            support = len(nodes)
            nodes += self.support.nodes(support)
        head = Head._make([*ends, *strides, *starts, *limits, support, unequal, several, WEIGHT_ONE])
        return FlatTable(nodes, (head,))


def list_scenes(arrays: TableArrays) -> str:
    """Names of the measured scenes, for messages."""
    return ", ".join(scene.value for scene in SCENES if scene in arrays.ladders)


def support_of_document(stored: SupportV1) -> Support:
    """The boxes of a document, which its model has checked."""
    support = Support({axis: tuple(getattr(stored.edges, axis)) for axis in AXES}, {})
    measured = {
        scene: np.asarray(flags, dtype=bool).reshape(support.shape(scene)) for scene, flags in stored.measured.items()
    }
    return Support(support.edges, measured)


def support_document(support: Support) -> SupportV1:
    return SupportV1(
        edges=EdgesV1(**{axis: list(edges) for axis, edges in support.edges.items()}),
        measured={scene: boxes.astype(int).ravel().tolist() for scene, boxes in support.measured.items()},
    )


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
