"""What a study came to: the seeds of one policy on one workload as one group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..run_report import RunReport
from ..serving_metrics import SeedSummary, summary
from ..workloads.registry import workload_spec
from .cell import Cell


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
