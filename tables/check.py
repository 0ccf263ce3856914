"""What a table file can say about itself: readable, unchanged, its bounds in order cell by cell.

Only the profile can tell whether the certificates are true (`fitters.validate`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..files.errors import TableFormatError
from . import document
from .arrays import TableArrays
from .batch import Scene
from .closure import seams
from .document import Finding
from .grid import SCENE_AXES, Ticks, to_ms
from .schema_v1 import TableV1

MAX_EXAMPLES = 3  # cells named per kind of finding; the count is always given


def validate_file(path: str | Path) -> tuple[TableV1 | None, list[Finding]]:
    """The table, and what is wrong with the file itself: structure first, then the checksum.

    A file that cannot be read at all gives (None, [one finding]).
    """
    try:
        table, stale = document.read(path)
    except TableFormatError as error:
        return None, [Finding("structure", str(path), str(error))]
    return table, order_findings(TableArrays.of(table)) + ([stale] if stale else [])


def order_findings(arrays: TableArrays) -> list[Finding]:
    """Every place where a bound is below the bound of a batch with less work, or below its expected time.

    Exact and complete: parts that are non-decreasing along every axis, and seams in order at every
    integer, order every pair of batches (tables/closure.py says why).
    """
    findings: list[Finding] = []
    for scene, ladder in arrays.ladders.items():
        for kind, surfaces in (("bound_ms", arrays.bound), ("expected_ms", arrays.expected)):
            surface = surfaces[scene]
            findings += _falls(surface.ladder, scene, f"ladder.{kind}", [("n + c", ladder.batch_tokens)])
            axes = [(name, arrays.axes.knots(name)) for name in SCENE_AXES[scene]]
            findings += _falls(surface.base, scene, f"base.{kind}", axes)
        findings += _crossings(arrays, scene)
    for seam in seams(arrays.axes, arrays.ladders, arrays.bound):
        short = np.flatnonzero(seam.shortage > 0)
        for i in short[:MAX_EXAMPLES]:
            findings.append(
                Finding(
                    "structure",
                    f"seam {seam.lower.value} -> mixed at {_cell(seam.points_above[i])}",
                    f"bound is {float(to_ms(seam.shortage[i])):.6g} ms short of the bound of "
                    f"{_cell(seam.points_below[i])}, a batch with less work; expected none ({len(short)} such cells): "
                    "fit the table again",
                )
            )
    return findings


def _falls(values: Ticks, scene: Scene, part: str, axes: list[tuple[str, tuple[int, ...]]]) -> Iterator[Finding]:
    for axis, (name, knots) in enumerate(axes):
        drop = np.diff(values, axis=axis)
        places = np.argwhere(drop < 0)
        for place in places[:MAX_EXAMPLES]:
            above = place.copy()
            above[axis] += 1
            cell = ", ".join(f"{n} {k[int(i)]}" for (n, k), i in zip(axes, above, strict=True))
            yield Finding(
                "structure",
                f"$.scenes.{scene.value}.{part}[{int(np.ravel_multi_index(above, values.shape))}] ({cell})",
                f"{to_ms(values[tuple(above)])} ms is below {to_ms(values[tuple(place)])} ms at {name} "
                f"{knots[int(place[axis])]}, a batch with less work; expected it not to fall "
                f"({len(places)} such cells along {name}): fit the table again",
            )


def _crossings(arrays: TableArrays, scene: Scene) -> Iterator[Finding]:
    for part in ("ladder", "base"):
        expected: Ticks = getattr(arrays.expected[scene], part)
        bound: Ticks = getattr(arrays.bound[scene], part)
        below = np.flatnonzero((bound < expected).ravel())
        if below.size:
            yield Finding(
                "structure",
                f"$.scenes.{scene.value}.{part}.bound_ms[{int(below[0])}]",
                f"{to_ms(bound.ravel()[below[0]])} ms is below expected_ms {to_ms(expected.ravel()[below[0]])} ms; "
                f"expected bound >= expected ({below.size} such cells): fit the table again",
            )


def _cell(point: np.ndarray) -> str:
    return "(n {}, k {}, c {}, u {})".format(*map(int, point))
