"""Published scheduler evaluations beside the same policies here. Runs are simulated: no figure depends on the machine.

Sections: `sloweave` (its reconstructed workloads at 10, 25 and 50 ms, against the paper's static policies, a fine
grid of chunks, and that grid with several prefills and token budgets), `printed` (figures of its tables beside ours),
`load` (the load where the gain begins), `variations` (the assumptions of the reconstruction), `sliding`
(SlidingServe, QoServe and Sarathi-EDF on a curved cost), `traces` (recorded traffic, from CHUNKFIT_PUBLIC_DATA),
`trust` (the price of a biased or noisy table, with table_trust.png).

A figure is a mean over seeds with their range; a ratio is a ratio of means with the range of single seeds. The best
policy of a set is chosen on the seeds that judge it. Claims that should hold begin with PASS or FAIL.

Run: [CHUNKFIT_PUBLIC_DATA=FOLDER] python benchmarks/published.py [--quick] [--only SECTION] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from report import Row, save, show
from rich.console import Console
from rich.table import Table
from shapes import sliding, sloweave, traces, trust
from shapes.picture import draw
from shapes.play import Job, play
from shapes.reasons import why_differs, why_failed
from shapes.verdicts import FAIL, PASS, Beside, why
from threadpoolctl import threadpool_limits

from chunkfit.scheduler.serving_metrics import GroupMetrics


@dataclass(frozen=True, slots=True)
class Size:
    """per_octave: sizes of the fine grid from a size to its double; per_octave_of_load: the same for many rates and
    long traces. requests: of a run of `sliding`.
    """

    seeds: range
    per_octave: int
    per_octave_of_load: int
    requests: int


FULL = Size(range(10), 8, 4, 1000)
QUICK = Size(range(2), 1, 1, 100)


@dataclass(slots=True)
class Bench:
    """The processes of the sections, and their results."""

    pool: ProcessPoolExecutor
    size: Size
    traces: str | None
    console: Console = field(default_factory=lambda: Console(width=160))
    rows: list[Row] = field(default_factory=list)
    trust: list[trust.Shown] = field(default_factory=list)

    def play(self, jobs: Sequence[Job]) -> list[list[GroupMetrics]]:
        return list(self.pool.map(play, jobs, chunksize=8))

    def spread(self, function, *columns):
        return list(self.pool.map(function, *columns))

    def keep(self, title: str, rows: Sequence[Row]) -> None:
        if rows:
            show(title, list(rows), self.console)
            self.rows += rows

    def judge(self, claims: Sequence[Row]) -> None:
        """Each claim, and below a claim that fails its reason."""
        rows: list[Row] = []
        for claim in claims:
            rows.append(claim)
            if claim.name.startswith(FAIL):
                rows.append(why(claim.name.removeprefix(f"{FAIL}: "), why_failed(claim.name)))
        held, failed = (sum(claim.name.startswith(verdict) for claim in claims) for verdict in (PASS, FAIL))
        self.keep(f"claims, {len(self.size.seeds)} seeds: {held} of {held + failed}", rows)

    def compare(self, title: str, found: Sequence[Beside]) -> None:
        """Published beside measured figures, with a reason where they differ by more than a twentieth."""
        table = Table("what", "published", "measured", "low", "high", "unit", title=title)
        reasons: dict[str, list[str]] = {}
        for each in found:
            m = each.measured
            numbers = ("" if x is None else f"{x:.4g}" for x in (each.published, m.value, m.lo, m.hi))
            table.add_row(each.what, *numbers, each.unit)
            self.rows += each.rows()
            if each.differs():
                reason = why_differs(each.what)
                self.rows.append(why(each.what, reason))
                reasons.setdefault(reason, []).append(each.what)
        self.console.print(table)
        for reason, of in reasons.items():
            self.console.print(f"differ by more than a twentieth: {'; '.join(of)}\n  {reason}", highlight=False)


def of_sloweave(bench: Bench) -> None:
    rows, claims = sloweave.evaluation(bench.play, bench.size.seeds, bench.size.per_octave)
    bench.keep("SLOWeave's workloads, affine cost", rows)
    bench.judge(claims)


def of_printed(bench: Bench) -> None:
    beside, claims = sloweave.reproduction(bench.play, bench.size.seeds)
    bench.compare("SLOWeave's tables, published and measured", beside)
    bench.judge(claims)


def of_load(bench: Bench) -> None:
    rows = sloweave.load_sweep(bench.play, bench.size.seeds, bench.size.per_octave_of_load)
    bench.keep("mixed by load", list(rows))


def of_variations(bench: Bench) -> None:
    bench.keep("assumptions of the reconstruction", list(sloweave.variations(bench.play, bench.size.seeds)))


def of_sliding(bench: Bench) -> None:
    rows, beside, claims = sliding.evaluation(bench.spread, bench.size.seeds, bench.size.requests)
    bench.keep("SlidingServe's workloads, curved cost", rows)
    bench.compare("SlidingServe's tables, published and measured", beside)
    bench.judge(claims)


def of_traces(bench: Bench) -> None:
    bench.keep("missing traces", list(traces.skipped(bench.traces)))
    present = traces.present(bench.traces)
    if present:
        parts = bench.size.seeds
        rows = traces.sloweave_rows(bench.play, bench.spread, present, parts, bench.size.per_octave_of_load)
        bench.keep("traces, affine cost", list(rows))
        bench.keep("traces, curved cost", list(traces.sliding_rows(bench.spread, present, parts)))


def of_trust(bench: Bench) -> None:
    bench.trust = list(trust.shown(bench.spread, bench.size.seeds))
    bench.keep("the price of errors in a table", [each.row() for each in bench.trust])


SECTIONS: dict[str, Callable[[Bench], None]] = {
    "sloweave": of_sloweave,
    "printed": of_printed,
    "load": of_load,
    "variations": of_variations,
    "sliding": of_sliding,
    "traces": of_traces,
    "trust": of_trust,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two seeds and coarse grids: no claim; under 50 s")
    parser.add_argument("--only", choices=SECTIONS, action="append", help="this section; may be repeated")
    parser.add_argument("--out", type=Path, help="folder of the results")
    arguments = parser.parse_args()
    size = QUICK if arguments.quick else FULL
    with ProcessPoolExecutor(os.cpu_count(), initializer=threadpool_limits, initargs=(1,)) as pool:
        bench = Bench(pool, size, os.environ.get("CHUNKFIT_PUBLIC_DATA"))
        for name in arguments.only or SECTIONS:
            SECTIONS[name](bench)
    path = save("published", bench.rows, ("chunkfit", "numpy", "numba"), folder=arguments.out)
    if bench.trust:
        draw(bench.trust, path.with_name("table_trust.png"))
    for row in bench.rows:
        if row.name.startswith(FAIL):
            bench.console.print(row.name, highlight=False)


if __name__ == "__main__":
    main()
