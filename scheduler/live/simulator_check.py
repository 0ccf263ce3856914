"""Does the simulator say what the device did? The same arrivals, policy and table, simulated beside each live run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from pydantic import Field

from ...files.strict import Strict
from ..cost.cost_record import EXACT, Factors, residual_factors
from ..serving_metrics import GroupMetrics, measure
from ..simulate import Conditions, simulate
from .runner import LiveRunner, Outcome
from .serve import LiveCosts


class Compared(Strict):
    """One figure, the mean over a policy's runs; None where no request has it."""

    live: float | None
    by_table: float | None = Field(description="iterations take the table's expected times")
    by_residuals: float | None = Field(description="times the ratios T / E that the live runs of this policy showed")

    def difference(self, simulated: float | None) -> float | None:
        """Of `simulated`, one of the two, relative to the live figure."""
        return simulated / self.live - 1 if simulated is not None and self.live else None


# A shared machine runs at one speed for a second or more and then at another: drawn one by one, its slow iterations
# would spoil the P99 gap of many requests instead of a few.
TOGETHER_MS = 2000.0

FIGURES: dict[str, Callable[[GroupMetrics], float | None]] = {
    "goodput_per_s": lambda group: group.goodput_per_s,
    "good_share": lambda group: group.good_share,
    "ttft_p50_ms": lambda group: group.ttft_ms.p50,
    "ttft_p99_ms": lambda group: group.ttft_ms.p99,
    "mean_gap_p50_ms": lambda group: group.mean_gap_ms.p50,
    "p99_gap_p99_ms": lambda group: group.p99_gap_ms.p99,
}


def compare_with_simulator(runner: LiveRunner, outcomes: Sequence[Outcome]) -> dict[str, Compared]:
    """Figures of one policy, live and simulated. The host's mean time an iteration, as measured, is added to both."""
    costs = LiveCosts.of(runner.table)
    log = np.concatenate([outcome.live.run.log for outcome in outcomes])
    known = log[np.isfinite(log["expected_ms"])]
    ratios = known["engine_ms"] / known["expected_ms"]
    in_a_row = max(1, round(TOGETHER_MS / known["latency_ms"].mean())) if len(known) else 1
    host_ms = float(np.maximum(log["latency_ms"] - log["engine_ms"], 0).mean()) if len(log) else 0.0
    sources: Mapping[str, Factors] = {
        "by_table": EXACT,
        "by_residuals": residual_factors(runner.seed, ratios, in_a_row) if len(ratios) else EXACT,
    }

    def simulated(outcome: Outcome, factors: Factors) -> GroupMetrics:
        requests = outcome.workload.requests
        conditions = Conditions(factors, host_ms, outcome.until_ms)
        run = simulate(requests, outcome.policy, costs.bound, costs.expected, runner.limits, conditions)
        return measure(requests, run.results, runner.criterion, run.makespan_ms).groups["all"]

    groups = {"live": [outcome.report.over_all for outcome in outcomes]}
    groups |= {name: [simulated(outcome, factors) for outcome in outcomes] for name, factors in sources.items()}
    return {
        figure: Compared(**{name: _mean([of(group) for group in each]) for name, each in groups.items()})
        for figure, of in FIGURES.items()
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
