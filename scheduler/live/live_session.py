"""A live session: a load curve where no rate is given, then interleaved rounds, then what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...tables.lookup import WEIGHT_ONE
from ..policies import Policy
from .rates import curve, near_capacity
from .runner import LiveRunner, Outcome
from .session_report import CalibratedV1, LiveReportV1, by_policy, session_report
from .simulator_check import Compared, compare_with_simulator
from .slo_targets import MakeWorkload, SloTargets, refused_note, require_room

TRIED_FIRST = 100  # requests, of which one at least must fit


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """rate: requests/s, None asks the device. seconds: over which the requests of a round arrive, of a rate of the
    curve `curve_seconds`. rounds: one turn of every policy each, on other requests each time.
    """

    policies: Sequence[Policy]
    curve_policies: Sequence[Policy]
    make: MakeWorkload
    targets: SloTargets
    rate: float | None
    seconds: float
    rounds: int
    curve_seconds: float
    check_simulator: bool


def run_live_session(runner: LiveRunner, plan: SessionPlan) -> tuple[LiveReportV1, list[Outcome]]:
    """What was report, and every run; as far as it got where it was stopped.

    Raises UsageError where the engine has no room for a single request of the workload.
    """
    first = plan.make(1.0, TRIED_FIRST, runner.seed)
    require_room(first.requests, runner.limits)
    runner.warm_up(plan.policies[0], first)
    seeds = [runner.seed + 1 + index for index in range(plan.rounds)]
    on_curve: list[Outcome] = []
    in_rounds: list[Outcome] = []
    rate = plan.rate
    if rate is None:
        on_curve = curve(runner, plan.curve_policies, plan.make, plan.curve_seconds)
        if on_curve and not runner.stopped:
            rate = near_capacity(runner, on_curve, plan.make, plan.curve_seconds, plan.seconds, seeds)
    if rate is not None:
        workloads = [(rate, plan.make(rate, plan.seconds, seed)) for seed in seeds]
        in_rounds = runner.turns(plan.policies, workloads, plan.seconds)
    whole = [outcome for outcome in in_rounds if not outcome.live.stopped]
    simulator: dict[str, dict[str, Compared]] = {}
    if plan.check_simulator:
        simulator = {name: compare_with_simulator(runner, each) for name, each in by_policy(whole).items()}
    outcomes = [*on_curve, *in_rounds]
    served = {outcome.report.workload.sha256: outcome.workload for outcome in outcomes}
    notes = [note for made in served.values() for note in made.notes]
    if served:
        note = refused_note(np.concatenate([made.requests for made in served.values()]), runner.limits)
        notes += [note] if note else []
    report = session_report(
        runner,
        plan.targets,
        on_curve,
        in_rounds,
        simulator=simulator,
        calibrated=_calibrated(runner),
        notes=tuple(dict.fromkeys(notes)),
    )
    return report, outcomes


def _calibrated(runner: LiveRunner) -> CalibratedV1 | None:
    if runner.calibrator is None:
        return None
    return CalibratedV1(bound_factor=runner.calibrator.table.bound.factor / WEIGHT_ONE)
