"""Results of a benchmark: a table on the terminal, a JSON file beside it.

JSON: {schema_version, command, git, machine, versions, rows: [{name, value, unit, n, lo, hi}]}, where lo and
hi are what the benchmark says they are in `name` (a range, an interval), or null.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from chunkfit.engine.facts import cpu_name
from chunkfit.engine.provenance import checkout_commit, installed_version
from chunkfit.tables.writing import write_atomically

SCHEMA_VERSION = 1
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    value: float
    unit: str
    n: int
    lo: float | None = None
    hi: float | None = None


def write(name: str, rows: list[Row], packages: tuple[str, ...]) -> Path:
    """Print the rows and write them for this machine's CPU; returns the file's path."""
    table = Table(title=name)
    for column in ("what", "value", "unit", "n", "low", "high"):
        table.add_column(column, justify="left" if column in ("what", "unit") else "right")
    for row in rows:
        cells = ["" if x is None else f"{x:.4g}" for x in (row.lo, row.hi)]
        table.add_row(row.name, f"{row.value:.4g}", row.unit, f"{row.n:,}", *cells)
    Console().print(table)
    folder = RESULTS / re.sub(r"[^a-z0-9]+", "-", cpu_name().lower()).strip("-")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    content = {
        "schema_version": SCHEMA_VERSION,
        "command": " ".join(["python", *sys.argv]),
        "git": checkout_commit(),
        "machine": {"cpu": cpu_name(), "cores": os.cpu_count(), "platform": platform.platform()},
        "versions": {"python": platform.python_version()} | {p: installed_version(p) for p in packages},
        "rows": [asdict(row) for row in rows],
    }
    write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())
    Console().print(f"written: {path}")
    return path
