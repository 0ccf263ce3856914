"""One run of a study: what it is, so that equal cells have equal reports, and the playing of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ...files.errors import UsageError
from ...files.strict import Count, Sha256, Strict
from ..cost.look_up import alone_ms
from ..cost.named_costs import NamedCost
from ..policies import policy
from ..run_report import CostsV1, RunReport, SchedulingV1, workload_facts
from ..serving_metrics import criterion_named, measure
from ..serving_state import Limits
from ..simulate import Conditions, Run, simulate
from ..workloads.registry import workload, workload_spec
from ..workloads.workload import Workload

Costs = Mapping[str, NamedCost]  # by name


class Cell(Strict):
    """Made by `cell`, which writes every text in full: two cells are the same run if they are equal."""

    policy: str
    workload: str
    file_sha256: Sha256 | None = Field(description="of the workload's file")
    seed: Count
    belief: str = Field(description="name of the cost that the policy asks")
    truth: str = Field(description="name of the cost that iterations have")
    criterion: str
    max_running: Annotated[int, Field(ge=1)]
    kv_tokens: Annotated[int, Field(ge=1)] | None = Field(description="null: what the costs hold")
    decision_us: Annotated[float, Field(ge=0)] = Field(description="added to every iteration")

    def title(self) -> str:
        """For people, where something went wrong."""
        return f"policy {self.policy}, workload {self.workload}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Setting:
    """What all cells of a study share. belief, truth: names of costs."""

    belief: str
    truth: str
    criterion: str = "per_token"
    max_running: int = 128
    kv_tokens: int | None = None
    decision_us: float = 0.0

    def __post_init__(self) -> None:
        criterion_named(self.criterion)
        for name in ("max_running", "kv_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} is {value}; expected 1 or more")


def cell(policy_text: str, workload_text: str, seed: int, setting: Setting, **replaced: str) -> Cell:
    """replaced: options of the workload in place of its own. Raises UsageError for a text that cannot be meant."""
    spec = workload_spec(workload_text, **replaced)
    file = spec.options.file
    return Cell(
        policy=policy(policy_text).name,
        workload=spec.text,
        file_sha256=None if file is None else _sha256(file),
        seed=seed,
        belief=setting.belief,
        truth=setting.truth,
        criterion=setting.criterion.replace("-", "_"),
        max_running=setting.max_running,
        kv_tokens=setting.kv_tokens,
        decision_us=setting.decision_us,
    )


@dataclass(frozen=True, slots=True)
class Played:
    workload: Workload
    run: Run


def play(cell: Cell, costs: Costs, log: bool = False) -> Played:
    """Raises what the workload, the policy and `simulate` raise."""
    belief, truth = costs[cell.belief], costs[cell.truth]
    limits = _limits(cell, belief, truth)
    made = workload(cell.workload, cell.seed, lambda rows: alone_ms(truth.alone, rows, limits.max_chunk_tokens))
    run = simulate(
        made.requests,
        policy(cell.policy),
        belief.cost,
        truth.cost,
        limits,
        Conditions(truth.factors(cell.seed), cell.decision_us / 1000),
        log=log,
    )
    return Played(made, run)


def report_of(cell: Cell, costs: Costs, played: Played) -> RunReport:
    """The figures of a run; equal cells give equal bytes."""
    chosen, run = policy(cell.policy), played.run
    return RunReport(
        created_by=f"chunkfit {version('chunkfit')}",
        kind="simulated",
        device=costs[cell.truth].device,
        policy=chosen.name,
        policy_options={
            name: "/".join(f"{each:g}" for each in value) if isinstance(value, tuple) else value
            for name, value in chosen.options.items()
        },
        workload=workload_facts(played.workload),
        costs=CostsV1(true=cell.truth, policy=cell.belief),
        metrics=measure(played.workload.requests, run.results, cell.criterion, run.makespan_ms),
        counts={"iterations": run.iterations} | run.support_counts(),
        exceptions={"aged_prefill": run.exceptions, "relegated": run.relegations},
        scheduling=_scheduling(cell, run),
        joules=None,
    )


def _scheduling(cell: Cell, run: Run) -> SchedulingV1 | None:
    """Not measured here: what the cell says each decision takes."""
    if not cell.decision_us:
        return None
    taken = cell.decision_us
    return SchedulingV1(decisions=run.iterations, mean_us=taken, p99_us=taken, added=True)


def run_cell(cell: Cell, costs: Costs) -> RunReport:
    """Play and measure."""
    return report_of(cell, costs, play(cell, costs))


def _limits(cell: Cell, belief: NamedCost, truth: NamedCost) -> Limits:
    """The widest that both costs answer for."""
    one, other = (Limits.within(named.cost, cell.max_running, cell.kv_tokens) for named in (belief, truth))
    return Limits(**{field.name: min(getattr(one, field.name), getattr(other, field.name)) for field in fields(Limits)})


def _sha256(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror or error}); expected a workload's file: check the path"
        ) from error
