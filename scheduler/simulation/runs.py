"""Play the cells of a study, each one once, and summarise the reports over seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..run_report import RunReport
from ..serving_metrics import SeedSummary, summary
from ..workloads.registry import workload_spec
from .cell import Cell
from .journal import Journal
from .pools import Pool

OnDone = Callable[[int, int], None]  # cells that are done, of how many


class Study:
    """Cells in, reports out, in the same order. Without a journal the reports stay in memory."""

    def __init__(self, pool: Pool, journal: Journal | None = None) -> None:
        self._pool, self._journal = pool, journal
        self._reports: dict[Cell, RunReport] = {} if journal is None else dict(journal.reports)

    def reports(self, cells: Sequence[Cell], on_done: OnDone | None = None) -> list[RunReport]:
        """One a cell, in their order. on_done: called at once, and after each cell that is played.

        Raises what the pool and the journal raise; what was played before is kept.
        """
        asked = list(dict.fromkeys(cells))
        new = [cell for cell in asked if cell not in self._reports]
        done, total = len(asked) - len(new), len(asked)
        if on_done is not None:
            on_done(done, total)
        for cell, report in self._pool.play(new):
            self._reports[cell] = report
            if self._journal is not None:
                self._journal.add(cell, report)
            done += 1
            if on_done is not None:
                on_done(done, total)
        return [self._reports[cell] for cell in cells]


@dataclass(frozen=True, slots=True)
class Group:
    """spreads: over seeds, of all requests, by the names of `metrics.figures`; absent where no seed has the value.

    parts: the same of each class and application, where a run has several.
    """

    policy: str
    workload: str
    belief: str
    truth: str
    spreads: dict[str, SeedSummary]
    parts: dict[str, dict[str, SeedSummary]]

    def data(self) -> dict[str, Any]:
        """For JSON."""
        facts = {"policy": self.policy, "workload": self.workload, "cost": self.belief, "truth": self.truth}
        parts = {name: _plain(spreads) for name, spreads in self.parts.items()}
        return facts | {"figures": _plain(self.spreads), "parts": parts}

    def option(self, name: str) -> str:
        """What the workload says of it, such as `85` of its rate; empty where it says nothing."""
        return workload_spec(self.workload).options.texts(given=True).get(name, "")

    def mean(self, figure: str) -> float | None:
        spread = self.spreads.get(figure)
        return None if spread is None else spread.mean


def groups(cells: Sequence[Cell], reports: Iterable[RunReport]) -> list[Group]:
    """In the order of the first cell of each."""
    found: dict[Cell, list[RunReport]] = {}
    for cell, report in zip(cells, reports, strict=True):
        found.setdefault(cell.model_copy(update={"seed": 0}), []).append(report)
    return [_group(cell, members) for cell, members in found.items()]


def _group(cell: Cell, reports: Sequence[RunReport]) -> Group:
    """A part that a seed happens to lack is over the seeds that have it."""
    names = dict.fromkeys(name for report in reports for name in report.metrics.groups)
    spreads = {
        name: summary([report.metrics.groups[name] for report in reports if name in report.metrics.groups])
        for name in names
    }
    return Group(cell.policy, cell.workload, cell.belief, cell.truth, spreads.pop("all"), spreads)


def _plain(spreads: dict[str, SeedSummary]) -> dict[str, Any]:
    return {name: spread.model_dump() for name, spread in spreads.items()}
