"""The report of one run of one policy on one workload, as a file. Simulated and live runs write the same format.

Format history (a reader of any later release still reads every version listed here):
1  first version. Workload, policy, costs, metrics by group, counts, exceptions, scheduling time.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ..files.errors import RunReportError
from ..files.strict import Count, Sha256, Strict, read_model
from ..files.writing import write_atomically
from .serving_metrics import GroupMetrics, RunMetrics, figures

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table

    from .workloads.workload import Workload

FORMAT = "chunkfit.run-report"
SCHEMA_VERSION = 1
Scalar = bool | int | float | str | None
NonNegative = Annotated[float, Field(ge=0)]


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


_COLUMNS: tuple[tuple[str, Callable[[GroupMetrics], str]], ...] = (
    ("requests", lambda group: f"{group.requests:,}"),
    ("good", lambda group: f"{100 * group.good_share:.1f}%"),
    ("goodput /s", lambda group: f"{group.goodput_per_s:.4g}"),
    ("TTFT P50", lambda group: _ms(group.ttft_ms.p50)),
    ("P99", lambda group: _ms(group.ttft_ms.p99)),
    ("mean gap P50", lambda group: _ms(group.mean_gap_ms.p50)),
    ("P99 gap P50", lambda group: _ms(group.p99_gap_ms.p50)),
    ("P99", lambda group: _ms(group.p99_gap_ms.p99)),
    ("late", lambda group: f"{100 * group.missing_schedule:.1f}%"),
)


class WorkloadV1(Strict):
    name: str
    spec: str = Field(description="every option it was made with")
    seed: int
    requests: Count
    sha256: Sha256 = Field(description="of the requests' bytes: equal workloads have equal ones")
    notes: list[str] = Field(description="rows left out, prompts cut")


class CostsV1(Strict):
    """The cost of iterations, and the cost that the policy asked."""

    true: str = Field(description="a table, a formula, a distortion of either; `measured` in a live run")
    policy: str = Field(description="asked by the policy")


class SchedulingV1(Strict):
    """Time spent deciding, by the host's clock."""

    decisions: Count
    mean_us: NonNegative
    p99_us: NonNegative
    added: bool = Field(description="it is part of the run's clock; False: decided in no time")


class RunReport(Strict):
    """A run and its figures. Times are ms and s of the run's own clock."""

    format: Literal["chunkfit.run-report"] = "chunkfit.run-report"
    schema_version: Literal[1] = 1
    created_by: str
    kind: Literal["simulated", "live"]
    device: str | None = Field(description="title of the fingerprint of what ran, or of the table; null: a formula")
    policy: str
    policy_options: dict[str, Scalar]
    workload: WorkloadV1
    costs: CostsV1
    metrics: RunMetrics
    counts: dict[str, Count] = Field(description="iterations, prefill tokens and the like")
    exceptions: dict[str, Count] = Field(description="decisions that knowingly gave up a target, by reason")
    scheduling: SchedulingV1 | None = Field(description="null: not measured")
    joules: NonNegative | None = Field(description="energy of the device over the run; null: not measured")

    @property
    def over_all(self) -> GroupMetrics:
        return self.metrics.groups["all"]

    @property
    def joules_per_good(self) -> float | None:
        return self.joules / self.over_all.good if self.joules is not None and self.over_all.good else None

    def save(self, path: str | PathLike[str]) -> None:
        """Write the file, whole or not at all. Raises StorageError."""
        write_atomically(path, (self.model_dump_json(indent=1) + "\n").encode())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.markup import escape

        head = (self.policy, self.workload.spec, f"seed {self.workload.seed}", self.kind)
        yield escape("  ".join(head))
        facts = [f"cost {self.costs.true}", f"policy's cost {self.costs.policy}", self.device or "no device"]
        yield escape("; ".join(facts))
        yield self._table()
        yield escape("; ".join(self._counted()))

    def _table(self) -> Table:
        from rich.table import Table

        title = f"criterion {self.metrics.criterion}, {self.metrics.makespan_s:.4g} s"
        shown = Table(title=title, title_justify="left")
        shown.add_column("")
        for name, _ in _COLUMNS:
            shown.add_column(name, justify="right")
        for name, group in self.metrics.groups.items():
            shown.add_row(name, *(text(group) for _, text in _COLUMNS))
        shown.caption = "ms over requests that have the value; late: started requests with a token after its schedule"
        return shown

    def _counted(self) -> list[str]:
        counts = {name: getattr(self.over_all, name) for name in ("refused", "unfinished", "preemptions")}
        counts |= {name.replace("_", " "): count for name, count in {**self.counts, **self.exceptions}.items()}
        texts = [f"{name} {count:,}" for name, count in counts.items()]
        texts += [f"refused: {line}" for line in self.over_all.refused_because.lines()]
        if self.scheduling is not None:
            texts.append(f"decisions {self.scheduling.mean_us:.3g} us mean, {self.scheduling.p99_us:.3g} us P99")
        if self.joules_per_good is not None:
            texts.append(f"{self.joules_per_good:.4g} J per good request")
        return texts + self.workload.notes


def workload_facts(workload: Workload) -> WorkloadV1:
    """The part of a workload that a report keeps."""
    return WorkloadV1(
        name=workload.name,
        spec=workload.spec,
        seed=workload.seed,
        requests=len(workload.requests),
        sha256=workload.sha256(),
        notes=list(workload.notes),
    )


def scheduling_facts(decision_us: NDArray[np.float64], added: bool) -> SchedulingV1 | None:
    """decision_us: one time a decision. None where nothing was timed."""
    if not len(decision_us):
        return None
    p99 = float(np.quantile(decision_us, 0.99, method="inverted_cdf"))
    return SchedulingV1(decisions=len(decision_us), mean_us=float(np.mean(decision_us)), p99_us=p99, added=added)


def load(path: str | PathLike[str]) -> RunReport:
    """Read a report. Raises RunReportError for anything that is not exactly this format."""
    again = "run it again, or use the release that wrote it"
    return read_model(path, RunReport, RunReportError, f"{FORMAT} version {SCHEMA_VERSION}", again)


_RUN = ("policy", "workload", "seed", "true_cost", "policy_cost", "criterion", "makespan_s", "group")
_FIGURES = tuple(
    f"{name}_{part}" if part else name
    for name, field in GroupMetrics.model_fields.items()
    for part in getattr(field.annotation, "model_fields", ("",))
)


def csv_text(reports: Iterable[RunReport]) -> str:
    """One row a report and group; quantiles as `ttft_ms_p99`, empty where no request has the value."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow((*_RUN, *_FIGURES))
    for report in reports:
        metrics = report.metrics
        head = (report.policy, report.workload.spec, report.workload.seed, report.costs.true, report.costs.policy)
        run = (*head, metrics.criterion, metrics.makespan_s)
        for name, group in metrics.groups.items():
            writer.writerow((*run, name, *figures(group).values()))
    return out.getvalue()


def write_csv(reports: Sequence[RunReport], path: str | PathLike[str]) -> None:
    """Raises StorageError; the file appears whole or not at all."""
    write_atomically(path, csv_text(reports).encode())
