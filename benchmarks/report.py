"""Results of a benchmark: a table on the terminal, a JSON file beside it.

JSON: {schema_version, command, git, machine, versions, rows: [{name, value, unit, n, lo, hi}]}, where lo and
hi are what the benchmark says they are in `name` (a range, an interval), or null. value is null where nothing could be
measured; `unit` then says why.
"""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from chunkfit.files.host import checkout_commit, cpu_name, installed_version
from chunkfit.files.writing import write_atomically

SCHEMA_VERSION = 1
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    value: float | None
    unit: str
    n: int
    lo: float | None = None
    hi: float | None = None


@contextmanager
def reported(name: str, packages: tuple[str, ...], *, gpu: str | None, folder: Path | None) -> Iterator[list[Row]]:
    """A list whose rows are written at the end, also where that is an error, Ctrl-C or a timeout's SIGTERM."""
    rows: list[Row] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield rows
    finally:
        write(name, rows, packages, gpu=gpu, folder=folder)


def write(
    name: str, rows: list[Row], packages: tuple[str, ...], *, gpu: str | None = None, folder: Path | None = None
) -> Path:
    """Print the rows and save them; returns the file's path."""
    show(name, rows, Console())
    return save(name, rows, packages, gpu=gpu, folder=folder)


def show(title: str, rows: list[Row], console: Console) -> None:
    """Print the rows as a table."""
    table = Table(title=title)
    for column in ("what", "value", "unit", "n", "low", "high"):
        table.add_column(column, justify="left" if column in ("what", "unit") else "right")
    for row in rows:
        cells = ["" if x is None else f"{x:.4g}" for x in (row.lo, row.hi)]
        table.add_row(row.name, "" if row.value is None else f"{row.value:.4g}", row.unit, f"{row.n:,}", *cells)
    console.print(table)


def save(
    name: str, rows: list[Row], packages: tuple[str, ...], *, gpu: str | None = None, folder: Path | None = None
) -> Path:
    """Write the rows to `folder`, by default that of the device; returns the file's path.

    gpu: its name, None for what was measured on the CPU.
    """
    folder = folder or RESULTS / re.sub(r"[^a-z0-9]+", "-", (gpu or cpu_name()).lower()).strip("-")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    content = {
        "schema_version": SCHEMA_VERSION,
        "command": " ".join(["python", *sys.argv]),
        "git": checkout_commit(),
        "machine": {"gpu": gpu, "cpu": cpu_name(), "cores": os.cpu_count(), "platform": platform.platform()},
        "versions": {"python": platform.python_version()} | {p: installed_version(p) for p in packages},
        "rows": [asdict(row) for row in rows],
    }
    write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())
    Console().print(f"written: {path}")
    return path
