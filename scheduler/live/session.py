"""A live session: a load curve where no rate is given, then interleaved rounds, then what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...tables.lookup import WEIGHT_ONE
from ..policies import Policy
from .bench import Bench, Outcome
from .fidelity import Compared, compare_with_simulator
from .rates import curve, near_capacity
from .study import CalibratedV1, LiveStudyV1, by_policy, study
from .targets import MakeWorkload, Targets, refused_note


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
    first = plan.make(plan.rate or 1.0, max(plan.seconds, 100 / (plan.rate or 1.0)), bench.seed)
    notes = [note for note in (refused_note(first.requests, bench.limits),) if note]
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
    found = study(
        bench, plan.targets, on_curve, in_rounds, simulator=simulator, calibrated=_calibrated(bench), notes=notes
    )
    return found, [*on_curve, *in_rounds]


def _calibrated(bench: Bench) -> CalibratedV1 | None:
    if bench.calibrator is None:
        return None
    return CalibratedV1(bound_factor=bench.calibrator.table.bound_factor / WEIGHT_ONE)
