"""A table in other shapes: CSV with one row a node, and the JSON Schema of its file.

The schema ships with the package. `python -m chunkfit.tables.export` writes it again from the models; a test fails when
it is stale.
"""

from __future__ import annotations

import csv
import io
import json
from importlib import resources
from pathlib import Path

from ..files.writing import write_atomically
from .batch import SCENES
from .cost_table import CostTable
from .grid import node_points
from .schema_v1 import SCHEMA_VERSION, TableV1

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
    """Every node that has an answer, with ladder and base added up; read linearly between nodes it is the table
    except for the ladder's steps, which only the JSON carries."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for scene in SCENES:
        if scene not in table.arrays.ladders:
            continue
        points = node_points(table.arrays.axes, scene)
        inside = table.domain.contains(points)
        inside[inside] = table.arrays.answers(points[inside])
        measured = table.arrays.measured[scene].ravel()[inside]
        expected, bound = table.read(points[inside])
        for (n, k, c, u), e, b, m in zip(points[inside].tolist(), expected, bound, measured, strict=True):
            writer.writerow((scene.value, n, k, c, u, float(e), float(b), int(m)))
    return out.getvalue()


def write_csv(table: CostTable, path: str | Path) -> None:
    """Raises StorageError; the file appears whole or not at all."""
    write_atomically(path, csv_text(table).encode())


def schema_text() -> str:
    """JSON Schema of the current format version."""
    schema = TableV1.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = f"chunkfit cost table, version {SCHEMA_VERSION}"
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


def shipped_schema(version: int = SCHEMA_VERSION) -> str:
    """The schema text inside the installed package."""
    return resources.files(__package__).joinpath("schema", f"table-v{version}.json").read_text("utf-8")


if __name__ == "__main__":
    write_atomically(Path(__file__).parent / "schema" / f"table-v{SCHEMA_VERSION}.json", schema_text().encode())
