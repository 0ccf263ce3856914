"""A live session: a load curve where no rate is given, then interleaved rounds, then what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...tables.lookup import WEIGHT_ONE
from ..policies import Policy
from .bench import Bench, Outcome
from .fidelity import Compared, compare_with_simulator
from .rates import curve, near_capacity
from .study import CalibratedV1, LiveStudyV1, by_policy, study
from .targets import MakeWorkload, Targets, refused_note, require_room

TRIED_FIRST = 100  # requests, of which one at least must fit


@dataclass(frozen=True, slots=True)
class Plan:
    """rate: requests/s, None asks the device. seconds: over which the requests of a round arrive, of a rate of the
    curve `curve_seconds`. rounds: one turn of every policy each, on other requests each time.
    """

    policies: Sequence[Policy]
    curve_policies: Sequence[Policy]
    make: MakeWorkload
    targets: Targets
    rate: float | None
    seconds: float
    rounds: int
    curve_seconds: float
    check_simulator: bool


def session(bench: Bench, plan: Plan) -> tuple[LiveStudyV1, list[Outcome]]:
    """What was found, and every run; as far as it got where it was stopped.

    Raises UsageError where the engine has no room for a single request of the workload.
    """
    first = plan.make(1.0, TRIED_FIRST, bench.seed)
    require_room(first.requests, bench.limits)
    bench.warm_up(plan.policies[0], first)
    seeds = [bench.seed + 1 + index for index in range(plan.rounds)]
    on_curve: list[Outcome] = []
    in_rounds: list[Outcome] = []
    rate = plan.rate
    if rate is None:
        on_curve = curve(bench, plan.curve_policies, plan.make, plan.curve_seconds)
        if on_curve and not bench.stopped:
            rate = near_capacity(bench, on_curve, plan.make, plan.curve_seconds, plan.seconds, seeds)
    if rate is not None:
        workloads = [(rate, plan.make(rate, plan.seconds, seed)) for seed in seeds]
        in_rounds = bench.turns(plan.policies, workloads, plan.seconds)
    whole = [outcome for outcome in in_rounds if not outcome.live.stopped]
    simulator: dict[str, dict[str, Compared]] = {}
    if plan.check_simulator:
        simulator = {name: compare_with_simulator(bench, each) for name, each in by_policy(whole).items()}
    outcomes = [*on_curve, *in_rounds]
    served = {outcome.report.workload.sha256: outcome.workload for outcome in outcomes}
    notes = [note for made in served.values() for note in made.notes]
    if served:
        note = refused_note(np.concatenate([made.requests for made in served.values()]), bench.limits)
        notes += [note] if note else []
    found = study(
        bench,
        plan.targets,
        on_curve,
        in_rounds,
        simulator=simulator,
        calibrated=_calibrated(bench),
        notes=tuple(dict.fromkeys(notes)),
    )
    return found, outcomes


def _calibrated(bench: Bench) -> CalibratedV1 | None:
    if bench.calibrator is None:
        return None
    return CalibratedV1(bound_factor=bench.calibrator.table.bound.factor / WEIGHT_ONE)
