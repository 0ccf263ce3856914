"""What a study came to: the seeds of one policy on one workload as one group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..metrics import Spread, summary
from ..run_report import RunReport
from ..workloads.spec import split_spec
from .cell import Cell


@dataclass(frozen=True, slots=True)
class Group:
    """spreads: over seeds, of all requests, by the names of `metrics.figures`; absent where no seed has the value."""

    policy: str
    workload: str
    belief: str
    truth: str
    spreads: dict[str, Spread]

    def data(self) -> dict[str, Any]:
        """For JSON."""
        figures = {name: spread.model_dump() for name, spread in self.spreads.items()}
        facts = {"policy": self.policy, "workload": self.workload, "cost": self.belief, "truth": self.truth}
        return facts | {"figures": figures}

    def option(self, name: str) -> str:
        """What the workload says of it, such as `85` of its rate; empty where it says nothing."""
        return split_spec(self.workload)[1].get(name, "")

    def mean(self, figure: str) -> float | None:
        spread = self.spreads.get(figure)
        return None if spread is None else spread.mean


def groups(cells: Sequence[Cell], reports: Iterable[RunReport]) -> list[Group]:
    """In the order of the first cell of each."""
    found: dict[Cell, list[RunReport]] = {}
    for cell, report in zip(cells, reports, strict=True):
        found.setdefault(cell.model_copy(update={"seed": 0}), []).append(report)
    return [
        Group(cell.policy, cell.workload, cell.belief, cell.truth, summary([report.over_all for report in members]))
        for cell, members in found.items()
    ]
