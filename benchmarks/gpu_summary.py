"""What a GPU session left: ceilings, operators against them, the table's evidence, and what of it was to hold.

Run: python benchmarks/gpu_summary.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from gpu_gates import GATES
from rich.console import Console
from rich.table import Table

from chunkfit.profiler.microbench import results
from chunkfit.tables import CostTable

WIDTH = 140  # where it is no terminal: a log


def microbench_rows(path: Path) -> list[tuple[str, str]]:
    """Ceilings, the median share of its ceiling by operator family, the ridge."""
    found = results.load(path)
    rows = [
        ("device", found.fingerprint.title()),
        ("copy bandwidth", f"{found.ceilings.copy_bytes_per_s / 1e9:,.0f} GB/s"),
        ("matrix rate", f"{found.ceilings.flops_per_s / 1e12:,.1f} TFLOP/s"),
    ]
    for family in dict.fromkeys(row.family for row in found.rows):
        shares = [row.fraction for row in found.rows if row.family == family]
        rows.append((f"{family}: share of ceiling", f"median {np.median(shares):.2f}, best {max(shares):.2f}"))
    return rows


def table_rows(path: Path) -> list[tuple[str, str]]:
    """What the table certifies and what the test session says."""
    document = CostTable.load(path).document
    certificate, test = document.certificate, document.test
    rows = [("table of", document.fingerprint.title())]
    if certificate:
        rows.append(("certified", f"{certificate.coverage:g} from {certificate.points} points"))
    if test:
        every = test.errors["all"]
        rows += [
            ("test coverage", f"{test.coverage.covered} of {test.coverage.rows}"),
            ("median error, MAPE", f"{every.median_percent:.2f}%, {every.mape_percent:.2f}%"),
            ("mean U/T", f"{every.mean_bound_ratio:.3f}"),
        ]
    return rows


def main() -> int:
    folder = Path(sys.argv[1])
    parts = {"microbench.json": microbench_rows, "table.json": table_rows}
    table = Table("what", "figure", title=str(folder))
    for name, read in parts.items():
        if (folder / name).exists():
            for row in read(folder / name):
                table.add_row(*row)
    gates = Table("what is to hold", "verdict", "figure", "limit", title="gates")
    verdicts = []
    for gate in GATES:
        verdict, figure, limit = gate.judged(folder)
        verdicts.append(verdict)
        gates.add_row(gate.title, verdict, figure, limit)
    for shown in (table, gates):
        if shown.row_count:
            Console(width=None if sys.stdout.isatty() else WIDTH).print(shown)
    return 1 if "FAIL" in verdicts or set(verdicts) == {"not measured"} else 0


if __name__ == "__main__":
    sys.exit(main())
