"""Served traffic as shares of scenes and of log-spaced cells, read from a CSV of n, k, c, u and weight."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ..files.errors import UsageError
from ..files.strict import Frozen
from ..tables.batch import SCENES, Scene
from ..tables.domain import Domain
from ..tables.grid import Points, scene_of
from .sampling import AXES, Point, U, axis_range, inside

HEADER = ("n", "k", "c", "u", "weight")
# Of calibrate and test points a scene gets at least this share, however rare it is: a bound is asked for there too.
LEAST_SHARE = 0.05
Share = Annotated[float, Field(ge=0, le=1)]


class TrafficCell(Frozen):
    """Share of the traffic between two points (n, k, c, u), both included."""

    low: Point
    high: Point
    share: Share


class Traffic(Frozen):
    """Shares add up to 1 over the cells; what lay outside the domain is not in them."""

    source: str
    rows: Annotated[int, Field(ge=1)]
    outside: Annotated[Share, Field(description="of the weight, outside the domain and left out")]
    scenes: Annotated[dict[Scene, Share], Field(description="shares of the calibrate and test points")]
    cells: tuple[TrafficCell, ...]

    def title(self) -> str:
        """The traffic in words."""
        scenes = ", ".join(f"{scene.value} {share:.0%}" for scene, share in self.scenes.items())
        outside = f"; {self.outside:.1%} of its weight lies outside the domain and is left out" if self.outside else ""
        return f"traffic of {self.source}: {self.rows:,} rows; calibrate and test have {scenes}{outside}"

    def per_cell(self, cells: Cells) -> NDArray[np.float64]:
        """(cells,): share of each."""
        shares = np.zeros(cells.count)
        shares[cells.of(np.asarray([cell.low for cell in self.cells], dtype=np.int64))] = [c.share for c in self.cells]
        return shares


def read_traffic(path: str | Path, domain: Domain) -> Traffic:
    """The traffic in a CSV file with the header n,k,c,u,weight.

    Raises UsageError naming line and column for anything else, and when all of it lies outside the domain.
    """
    points, weight = _rows(path)
    held = inside(domain, points)
    if not held.any():
        raise UsageError(
            f"{path}: all {len(points):,} rows lie outside the measured domain ({domain.max_decodes} decodes of "
            f"{domain.max_context_tokens:,} tokens, chunks of {domain.max_chunk_tokens:,} after "
            f"{domain.max_prefix_tokens:,}, {domain.kv_tokens:,} KV tokens); expected some inside: check the columns"
        )
    cells = Cells(domain)
    share = np.bincount(cells.of(points[held]), weight[held], cells.count) / weight[held].sum()
    scene = {name: float(share[cells.scenes == index].sum()) for index, name in enumerate(SCENES)}
    raised = {name: max(LEAST_SHARE, value) for name, value in scene.items()}
    boxes = [(int(cell), *cells.box(int(cell))) for cell in np.flatnonzero(share)]
    return Traffic(
        source=str(path),
        rows=len(points),
        outside=float(np.clip(1 - weight[held].sum() / weight.sum(), 0, 1)),
        scenes={name: value / sum(raised.values()) for name, value in raised.items()},
        cells=tuple(TrafficCell(low=low, high=high, share=float(share[cell])) for cell, low, high in boxes),
    )


def _rows(path: str | Path) -> tuple[Points, NDArray[np.float64]]:
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            lines = [(reader.line_num, line) for line in reader if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path}: cannot be read ({error}); expected a CSV file with {','.join(HEADER)}") from error
    header = tuple(name.strip() for name in lines[0][1]) if lines else ()
    if header != HEADER or len(lines) < 2:
        raise UsageError(
            f"{path}: found {len(lines)} lines, the first {','.join(header)!r}; expected the header "
            f"{','.join(HEADER)} and a batch on each line after it"
        )
    values = [_row(f"{path}, line {number}", line) for number, line in lines[1:]]
    return np.asarray([point for point, _ in values], dtype=np.int64), np.asarray([weight for _, weight in values])


def _row(where: str, line: list[str]) -> tuple[Point, float]:
    if len(line) != len(HEADER):
        raise UsageError(f"{where}: {len(line)} columns; expected {len(HEADER)}: {','.join(HEADER)}")
    counts: list[int] = []
    for name, text in zip(HEADER[:4], line, strict=False):
        if not (text.strip().isascii() and text.strip().isdigit()) or len(text.strip()) > 15:
            raise UsageError(f"{where}, column {name}: {text!r}; expected a whole number of tokens or decodes from 0")
        counts.append(int(text))
    try:
        weight = float(line[4])
    except ValueError:
        weight = float("nan")
    if not 0 < weight < float("inf"):
        raise UsageError(f"{where}, column weight: {line[4]!r}; expected a finite number above 0")
    n, k, c, u = counts
    if (n == 0) != (k == 0) or (c == 0 and u > 0) or n + c == 0:
        raise UsageError(
            f"{where}: n {n}, k {k}, c {c}, u {u} is no batch; expected decodes with a context (n and k), a "
            "chunk (c) with or without a prefix (u), or both"
        )
    return (n, k, c, u), weight


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
