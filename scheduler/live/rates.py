"""Which rates to try: from a device that idles to one that is overloaded, as its own table and then its clock say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..capacity import capacity
from ..policies import Policy
from ..serving_metrics import measure
from ..simulate import Conditions, simulate
from .runner import LiveRunner, Outcome, until_ms
from .serve import LiveCosts
from .slo_targets import MakeWorkload

SHARES_OF_CAPACITY = (0.2, 0.6, 0.9, 1.2, 1.7)
MOST_EXTRA_RATES = 2
IDLE_GOOD, OVERLOAD_GOOD = 0.9, 0.5  # of the best policy at the lowest and at the highest rate of a curve
NEAR_CAPACITY = 0.8  # good share of the best static policy, in the middle of the 70-90% where choices differ
STATIC = ("full", "fixed")
LEAST_RATE, MOST_RATE = 1e-3, 1e5  # requests/s that are looked at


def rates_by_table(runner: LiveRunner, policies: Sequence[Policy], make: MakeWorkload, seconds: float) -> list[float]:
    """Five rates around that at which the best policy is 90% good in the simulator, by the table's expected times."""
    found = simulated_rate(runner, policies, make, seconds, [runner.seed], IDLE_GOOD)
    return [share * found for share in SHARES_OF_CAPACITY]


def simulated_rate(
    runner: LiveRunner,
    policies: Sequence[Policy],
    make: MakeWorkload,
    seconds: float,
    seeds: Sequence[int],
    share: float,
) -> float:
    """The highest rate at which the best of the policies is so good in the simulator, on average over the seeds."""
    costs = LiveCosts.of(runner.table)

    def good(rate: float, seed: int) -> float:
        made = make(rate, seconds, seed).requests
        shares = []
        for policy in policies:
            run = simulate(
                made, policy, costs.bound, costs.expected, runner.limits, Conditions(until_ms=until_ms(seconds))
            )
            shares.append(measure(made, run.results, runner.criterion, run.makespan_ms).groups["all"].good_share)
        return max(shares)

    def mean(rate: float) -> float:
        return float(np.mean([good(rate, seed) for seed in seeds]))

    low = high = 1.0
    while mean(high) >= share and high < MOST_RATE:
        low, high = high, high * 4
    while low > LEAST_RATE and mean(low) < share:
        low, high = low / 4, low
    if low == high:
        return low
    return capacity(good, seeds, share, low, high, tolerance=0.03).rate or low


def curve(runner: LiveRunner, policies: Sequence[Policy], make: MakeWorkload, seconds: float) -> list[Outcome]:
    """Every policy at five rates or more; rates are added where the ends are not yet idle and overloaded.

    The requests of a rate are the same for all, and those of another rate are the same ones sooner.
    """
    rates = rates_by_table(runner, policies, make, seconds)

    def measured(rate: float) -> list[Outcome]:
        return runner.turns(policies, [(rate, make(rate, seconds, runner.seed))], seconds)

    outcomes = [outcome for rate in rates for outcome in measured(rate)]
    for _ in range(MOST_EXTRA_RATES):
        low, high = min(rates), max(rates)
        if runner.stopped:
            break
        if best_good(outcomes, low) < IDLE_GOOD:
            extra = low / 3
        elif best_good(outcomes, high) > OVERLOAD_GOOD:
            extra = high * 1.5
        else:
            break
        rates.append(extra)
        outcomes += measured(extra)
    return outcomes


def best_good(outcomes: Sequence[Outcome], rate: float, names: Sequence[str] | None = None) -> float:
    """Good share of the best policy at that rate, of those named where any are; 0 without one."""
    shares = [
        outcome.report.over_all.good_share
        for outcome in outcomes
        if outcome.rate == rate and (names is None or outcome.policy.name in names)
    ]
    return max(shares, default=0.0)


def near_capacity(
    runner: LiveRunner,
    on_curve: Sequence[Outcome],
    make: MakeWorkload,
    curve_seconds: float,
    seconds: float,
    seeds: Sequence[int],
) -> float:
    """The rate at which the best static policy is 80% good on the rounds' own requests.

    The curve says where that is on its requests; from those to the rounds', which are others and more, the simulator
    leads: by how much its own answer changes.
    """
    named = {outcome.policy.name: outcome.policy for outcome in on_curve}
    static = [policy for policy in named.values() if policy.family in STATIC] or list(named.values())
    here = simulated_rate(runner, static, make, curve_seconds, [runner.seed], NEAR_CAPACITY)
    there = simulated_rate(runner, static, make, seconds, seeds, NEAR_CAPACITY)
    return crossing(on_curve, [policy.name for policy in static]) * there / here


def crossing(on_curve: Sequence[Outcome], names: Sequence[str]) -> float:
    """Where on a curve the best of those policies is 80% good, between two measured rates by their logarithm; the end
    that is nearest where it never is.
    """
    rates = sorted({outcome.rate for outcome in on_curve})
    good = [best_good(on_curve, rate, names) for rate in rates]
    above = [index for index, share in enumerate(good) if share >= NEAR_CAPACITY]
    if not above:
        return rates[0]
    last = above[-1]
    if last == len(rates) - 1:
        return rates[-1]
    part = (good[last] - NEAR_CAPACITY) / (good[last] - good[last + 1])
    return float(np.exp(np.log(rates[last]) + part * np.log(rates[last + 1] / rates[last])))
