"""A table document as integer arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..files.errors import OutOfDomainError, TableFormatError
from .batch import SCENES, Scene
from .closure import read_surface
from .domain import Domain
from .grid import Axes, Ladder, Points, Surface, Ticks, scene_of, to_ms
from .lookup import MAX_TICKS, OUTSIDE, TICKS_PER_MS, WEIGHT_ONE, FlatTable, Head
from .schema_v1 import AxesV1, AxisV1, BaseV1, LadderV1, SceneV1, TableV1

AXIS_NAMES = ("decodes", "context_tokens", "prefix_tokens", "chunk_tokens")


@dataclass(frozen=True, slots=True)
class TableArrays:
    """Everything a look-up reads. measured: bool, shape of the scene's base."""

    axes: Axes
    ladders: Mapping[Scene, Ladder]
    expected: Mapping[Scene, Surface]
    bound: Mapping[Scene, Surface]
    measured: Mapping[Scene, NDArray[np.bool_]]

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


def from_document(table: TableV1, where: str) -> TableArrays:
    """Raises TableFormatError naming the JSON path of a wrong length, axis or value."""
    axes = Axes(**{name: _knots(getattr(table.axes, name), f"{where}: $.axes.{name}.knots") for name in AXIS_NAMES})
    _check_axes(table, axes, where)
    ladders: dict[Scene, Ladder] = {}
    expected: dict[Scene, Surface] = {}
    bound: dict[Scene, Surface] = {}
    measured: dict[Scene, NDArray[np.bool_]] = {}
    for scene, stored in table.scenes.items():
        at = f"{where}: $.scenes.{scene.value}"
        totals = _increasing(stored.ladder.batch_tokens, f"{at}.ladder.batch_tokens")
        ladders[scene] = Ladder(totals, stored.ladder.between)
        shape = axes.shape(scene)
        nodes = int(np.prod(shape))
        for surfaces, key in ((expected, "expected_ms"), (bound, "bound_ms")):
            surfaces[scene] = Surface(
                _ticks(getattr(stored.ladder, key), len(totals), f"{at}.ladder.{key}"),
                _ticks(getattr(stored.base, key), nodes, f"{at}.base.{key}").reshape(shape),
            )
        _length(stored.base.measured, nodes, f"{at}.base.measured")
        measured[scene] = np.asarray(stored.base.measured, dtype=bool).reshape(shape)
    return TableArrays(axes, ladders, expected, bound, measured)


def axes_document(axes: Axes) -> AxesV1:
    return AxesV1(**{name: AxisV1(knots=list(axes.knots(name)), between="linear") for name in AXIS_NAMES})


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


def _knots(axis: AxisV1, where: str) -> tuple[int, ...]:
    return _increasing(axis.knots, where)


def _increasing(values: list[int], where: str) -> tuple[int, ...]:
    for i, (low, high) in enumerate(pairwise(values)):
        if high <= low:
            raise TableFormatError(
                f"{where}[{i + 1}]: {high} after {low}; expected strictly increasing values: export the table again"
            )
    return tuple(values)


def _check_axes(table: TableV1, axes: Axes, where: str) -> None:
    domain = table.domain
    wanted = {
        "decodes": (1, domain.max_decodes),
        "context_tokens": (None, domain.max_context_tokens),
        "prefix_tokens": (0, domain.max_prefix_tokens),
        "chunk_tokens": (1, domain.max_chunk_tokens),
    }
    for name, (first, last) in wanted.items():
        knots = axes.knots(name)
        if first is not None and knots[0] != first:
            raise TableFormatError(
                f"{where}: $.axes.{name}.knots[0] is {knots[0]}; expected {first}, so that scenes meet at it: "
                "export the table again"
            )
        if knots[-1] != last:
            raise TableFormatError(
                f"{where}: $.axes.{name}.knots ends at {knots[-1]}; expected the domain's limit {last}: "
                "export the table again"
            )


def _ticks(values: list[float], length: int, where: str) -> Ticks:
    _length(values, length, where)
    scaled = np.asarray(values) * TICKS_PER_MS
    bad = np.flatnonzero((scaled != np.floor(scaled)) | (scaled >= MAX_TICKS))
    if bad.size:
        i = int(bad[0])
        raise TableFormatError(
            f"{where}[{i}] is {values[i]!r}; expected a multiple of 1/{TICKS_PER_MS} ms below "
            f"{MAX_TICKS // TICKS_PER_MS:,} ms: round bounds up, expected times to the nearest"
        )
    return scaled.astype(np.int64)


def _length(values: list[float] | list[int], length: int, where: str) -> None:
    if len(values) != length:
        raise TableFormatError(
            f"{where} has {len(values)} values; expected {length}, the product of its axes: export the table again"
        )
