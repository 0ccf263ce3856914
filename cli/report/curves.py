"""T along one coordinate as the table reads it, beside raw rows of the test session."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...tables.batch import AXES, Point, Scene
from .evidence import Evidence, Reading

SAMPLES = 240  # of a curve: enough that steps stand


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves over `axis` at the median of the other coordinates of `reading`'s rows; all of one scene.

    x, expected_ms, bound_ms: (samples,), inside the domain.
    """

    title: str
    axis: str
    x: NDArray[np.int64]
    expected_ms: NDArray[np.float64]
    bound_ms: NDArray[np.float64]
    reading: Reading


def panels(evidence: Evidence) -> list[Panel]:
    """Decode over n; prefill over c; mixed over c, the rows parted at their median n."""
    test = evidence.readings.get("test")
    if test is None:
        return []
    found = []
    for scene in test.rows.scenes():
        rows = test.scene(scene)
        if scene is not Scene.MIXED:
            axis = "decodes" if scene is Scene.DECODE else "chunk_tokens"
            found.append(_panel(evidence, f"{scene.value}", axis, rows))
            continue
        middle = int(np.median(rows.rows.points[:, 0]))
        fewer = rows.rows.points[:, 0] <= middle
        for mask, word in ((fewer, f"n up to {middle:,}"), (~fewer, f"n above {middle:,}")):
            if mask.any():
                found.append(_panel(evidence, f"mixed, {word}", "chunk_tokens", rows.where(mask)))
    return found


def _panel(evidence: Evidence, label: str, axis: str, reading: Reading) -> Panel:
    column = AXES.index(axis)
    state = np.median(reading.rows.points, axis=0).astype(np.int64)
    along = reading.rows.points[:, column]
    x = np.unique(np.geomspace(max(int(along.min()), 1), int(along.max()), SAMPLES).round().astype(np.int64))
    points = np.tile(state, (len(x), 1))
    points[:, column] = x
    inside = evidence.table.domain.contains(points)
    inside[inside] = evidence.arrays.answers(points[inside])
    expected_ms, bound_ms = evidence.arrays.read(points[inside])
    at = ", ".join(
        f"{name} {int(state[i]):,}"
        for i, name in enumerate(Point._fields)
        if i != column and reading.rows.points[:, i].any()
    )
    return Panel(f"{label}; curve at {at}", axis, x[inside], expected_ms, bound_ms, reading)
