"""The report of a live session: every run, the coverage of the bounds, the simulator check, the checks.

Format history: 1 first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Annotated, Literal

from pydantic import Field

from ...files.host import installed_version
from ...files.strict import Sha256, Share, Strict
from ...files.writing import write_atomically
from ...profiler.condition import SentinelVerdict
from ..run_report import RunReport
from ..serving_metrics import SeedSummary, over_seeds
from .bound_coverage import BoundCoverage, bound_coverage_of
from .rates import STATIC
from .runner import LiveRunner, Outcome, joined_log
from .simulator_check import Compared
from .slo_targets import SloTargets

MOST_MISSES = 0.02
LEAST_OF_STATIC = 0.97
MOST_SIMULATOR_ERROR = 0.10
JUDGED_GOOD = 0.5  # good share from which a policy's simulated goodput is judged
ADAPTIVE = "sloweave"


class Check(Strict):
    """held: None where it could not be measured."""

    name: str
    held: bool | None
    figure: float | None
    limit: float


class LiveRunV1(Strict):
    """phase: one of a curve's rates, or a round at one rate. stopped: cut, so that its requests say nothing."""

    phase: Literal["curve", "rounds"]
    rate: Annotated[float, Field(gt=0, description="requests/s that arrived")]
    stopped: bool
    report: RunReport


class CalibratedV1(Strict):
    """What an online calibrator did: `BoundCoverage.by_table` says how often the table alone was missed."""

    bound_factor: Annotated[float, Field(gt=0, description="on all bounds, at the end")]


class LiveReportV1(Strict):
    """A session. Shares and times as in the parts."""

    format: Literal["chunkfit.live-report"] = "chunkfit.live-report"
    schema_version: Literal[1] = 1
    created_by: str
    device: str
    synthetic: bool
    table_sha256: Sha256
    criterion: str
    targets: SloTargets
    runs: list[LiveRunV1]
    bound_coverage: dict[str, BoundCoverage] = Field(description="by policy, over all its runs")
    goodput: dict[str, SeedSummary] = Field(description="good requests/s by policy, over the rounds")
    sentinel: SentinelVerdict
    sentinel_level: float = Field(description="its median over what the table expects")
    simulator: dict[str, dict[str, Compared]] = Field(description="by policy and figure; empty unless asked for")
    calibrated: CalibratedV1 | None
    checks: list[Check]
    inconclusive: str | None = Field(description="why nothing follows from the times; null: they may be believed")
    stopped: bool = Field(description="ended before its time: what there is so far")
    notes: list[str]

    @property
    def exit_code(self) -> int:
        """130 stopped, 3 inconclusive, 1 a check failed, 0."""
        if self.stopped:
            return 130
        if self.inconclusive is not None:
            return 3
        return 1 if any(check.held is False for check in self.checks) else 0

    def save(self, path: str | PathLike[str]) -> None:
        """Write the file, whole or not at all. Raises StorageError."""
        write_atomically(path, (self.model_dump_json(indent=1) + "\n").encode())


def session_report(
    runner: LiveRunner,
    targets: SloTargets,
    on_curve: Sequence[Outcome],
    in_rounds: Sequence[Outcome],
    *,
    simulator: Mapping[str, Mapping[str, Compared]],
    calibrated: CalibratedV1 | None,
    notes: Sequence[str],
) -> LiveReportV1:
    """The report after those runs. Reads the sentinel once more first. Goodput counts complete runs only."""
    runner.read_sentinel()
    outcomes = [*on_curve, *in_rounds]
    whole = [outcome for outcome in in_rounds if not outcome.live.stopped]
    goodput = {
        name: over_seeds([outcome.report.over_all.goodput_per_s for outcome in each])
        for name, each in by_policy(whole).items()
    }
    sentinel = runner.quiet()
    return LiveReportV1(
        created_by=f"chunkfit {installed_version('chunkfit')}",
        device=runner.executor.fingerprint.title(),
        synthetic=runner.executor.fingerprint.synthetic,
        table_sha256=runner.table.document.content_sha256,
        criterion=runner.criterion,
        targets=targets,
        runs=[
            *(_run("curve", outcome) for outcome in on_curve),
            *(_run("rounds", outcome) for outcome in in_rounds),
        ],
        bound_coverage={
            name: bound_coverage_of(joined_log(each), runner.table) for name, each in by_policy(outcomes).items()
        },
        goodput=goodput,
        sentinel=sentinel,
        sentinel_level=runner.level(),
        simulator={name: dict(each) for name, each in simulator.items()},
        calibrated=calibrated,
        checks=_checks(runner, outcomes, whole, goodput, simulator),
        inconclusive=None if sentinel.quiet else f"the machine was {sentinel.title()}",
        stopped=runner.stopped,
        notes=list(notes),
    )


def _run(phase: Literal["curve", "rounds"], outcome: Outcome) -> LiveRunV1:
    return LiveRunV1(phase=phase, rate=outcome.rate, stopped=outcome.live.stopped, report=outcome.report)


def by_policy(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """In the order in which they first ran."""
    names = dict.fromkeys(outcome.policy.name for outcome in outcomes)
    return {name: [outcome for outcome in outcomes if outcome.policy.name == name] for name in names}


def _checks(
    runner: LiveRunner,
    outcomes: Sequence[Outcome],
    in_rounds: Sequence[Outcome],
    goodput: Mapping[str, SeedSummary],
    simulator: Mapping[str, Mapping[str, Compared]],
) -> list[Check]:
    missed = bound_coverage_of(joined_log(outcomes), runner.table).closed_loop if outcomes else None
    misses = missed.missed / missed.rows if missed is not None and missed.rows else None
    lost = sum(outcome.live.pages_lost for outcome in outcomes)
    checks = [
        _at_most("closed-loop share of iterations over the bound", misses, MOST_MISSES),
        _at_most("KV pages not given back", lost, 0),
    ]
    static = {outcome.policy.name for outcome in in_rounds if outcome.policy.family in STATIC}
    if ADAPTIVE in goodput and static:
        ratios = [goodput[ADAPTIVE].mean / goodput[name].mean for name in static if goodput[name].mean]
        figure = min(ratios, default=None)
        held = None if figure is None else figure >= LEAST_OF_STATIC
        name = f"mean goodput of {ADAPTIVE} over that of the best static policy, at least"
        checks.append(Check(name=name, held=held, figure=figure, limit=LEAST_OF_STATIC))
    models = {outcome.policy.name: outcome.policy.options.get("deadline") for outcome in in_rounds}
    for name, each in simulator.items():
        served, share = each["goodput_per_s"], each["good_share"].live or 0.0
        # Of a policy that hardly serves anybody a request more or less is a large share, and one that saves up slack
        # on a schedule has gaps around the target of every token by design.
        own_criterion = models[name] in (None, runner.criterion)
        difference = served.difference(served.by_residuals) if share >= JUDGED_GOOD and own_criterion else None
        figure = None if difference is None else abs(difference)
        checks.append(_at_most(f"simulated against live goodput, {name}", figure, MOST_SIMULATOR_ERROR))
    return checks


def _at_most(name: str, figure: Share | float | None, limit: float) -> Check:
    return Check(name=name, held=None if figure is None else figure <= limit, figure=figure, limit=limit)
