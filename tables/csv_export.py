"""The table as CSV, one row a node, for spreadsheets and engines that read a CSV."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from ..files.writing import write_atomically
from .batch import SCENES
from .cost_table import CostTable
from .grid import node_points

COLUMNS = (
    "scene",
    "decodes",
    "context_tokens",
    "chunk_tokens",
    "prefix_tokens",
    "expected_ms",
    "bound_ms",
    "measured",
)


def csv_text(table: CostTable) -> str:
    """Every node inside the domain with ladder and base added up; read linearly between nodes it is the
    table except for the ladder's steps, which only the JSON carries."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for scene in SCENES:
        if scene not in table.arrays.ladders:
            continue
        points = node_points(table.arrays.axes, scene)
        inside = table.domain.contains(points)
        measured = table.arrays.measured[scene].ravel()[inside]
        expected, bound = table.read(points[inside])
        for (n, k, c, u), e, b, m in zip(points[inside].tolist(), expected, bound, measured, strict=True):
            writer.writerow((scene.value, n, k, c, u, float(e), float(b), int(m)))
    return out.getvalue()


def write_csv(table: CostTable, path: str | Path) -> None:
    """Raises StorageError; the file appears whole or not at all."""
    write_atomically(path, csv_text(table).encode())
