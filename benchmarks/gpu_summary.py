"""What a GPU session left: ceilings, operators against them, the table's evidence, and what of it was to hold.

Run: python benchmarks/gpu_summary.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from gpu_gates import GATES, LIVE_TARGETS, study_of
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


def live_rows(path: Path) -> list[tuple[str, str]]:
    """What each policy was worth in the rounds, and how the bound did."""
    study = study_of(path)
    rows = [(path.stem, study.targets.title())]
    for name, spread in study.goodput.items():
        whole = [run for run in study.runs if run.phase == "rounds" and not run.stopped]
        reports = [run.report for run in whole if run.report.policy == name]
        ttft, gap = reports[-1].over_all.ttft_ms.p99, reports[-1].over_all.p99_gap_ms.p99
        joules = reports[-1].joules_per_good
        text = f"{spread.mean:.4g} good/s; last round: TTFT P99 {_ms(ttft)}, gap P99 {_ms(gap)}"
        rows.append((f"{path.stem}: {name}", text + ("" if joules is None else f", {joules:.4g} J per good request")))
    loop = study.bound_coverage["sloweave"].closed_loop if "sloweave" in study.bound_coverage else None
    if loop is not None and loop.coverage is not None:
        figure = f"{loop.coverage:.4f} [{loop.low:.4f}, {loop.high:.4f}] of {loop.rows:,} iterations"
        rows.append((f"{path.stem}: closed-loop coverage of sloweave", figure))
    return [*rows, (f"{path.stem}: machine", study.inconclusive or study.sentinel.title())]


def _ms(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g} ms"


def main() -> int:
    folder = Path(sys.argv[1])
    parts = {"microbench.json": microbench_rows, "table.json": table_rows}
    parts |= {f"live-{target}.json": live_rows for target in LIVE_TARGETS}
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
