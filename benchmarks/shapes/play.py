"""Runs to compare: workload, policy and cost, judged by each target."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chunkfit.scheduler.cost import CURVED, SLOWEAVE
from chunkfit.scheduler.cost.cost_record import NO_LIMIT
from chunkfit.scheduler.cost.look_up import alone_ms
from chunkfit.scheduler.policies import policy
from chunkfit.scheduler.serving_metrics import GroupMetrics, measure
from chunkfit.scheduler.serving_state import Limits
from chunkfit.scheduler.simulate import Run, simulate
from chunkfit.scheduler.workloads.registry import workload
from chunkfit.scheduler.workloads.workload import Requests

COSTS = {"affine": SLOWEAVE.cost(), "curved": CURVED.cost()}
NO_KV_LIMIT = 1 << 24  # pages


@dataclass(frozen=True, slots=True)
class Setting:
    """cost: a name of COSTS, both the policy's cost and the true one. criterion: of a good request. parts: a recorded
    trace is cut into so many parts, and each is a run as a seed is elsewhere; 0: the seed draws the workload. rates:
    requests/s between which the capacity is searched.
    """

    cost: str
    criterion: str
    max_running: int
    pages: int = NO_KV_LIMIT
    parts: int = 0
    rates: tuple[float, float] = (0.1, 16.0)

    def limits(self) -> Limits:
        return Limits(self.max_running, self.pages)


@dataclass(frozen=True, slots=True)
class Job:
    """targets_ms: the policy runs under the first of these TPOT targets and is judged by each; empty: the workload's.

    interpolated: a request's P99 gap as NumPy interpolates it, in place of the nearest rank.
    """

    spec: str
    seed: int
    policy: str
    setting: Setting
    targets_ms: tuple[float, ...] = ()
    interpolated: bool = False


@lru_cache(maxsize=32)
def _whole(spec: str, cost: str, seed: int) -> Requests:
    return workload(spec, seed, lambda requests: alone_ms(COSTS[cost], requests, NO_LIMIT)).requests


def requests_of(spec: str, seed: int, setting: Setting) -> Requests:
    """The requests of a seed, or of that part of a trace, from its first arrival on."""
    if not setting.parts:
        return _whole(spec, setting.cost, seed)
    whole = _whole(spec, setting.cost, 0)
    each = len(whole) // setting.parts
    part = whole[seed * each : (seed + 1) * each].copy()
    part["arrival_ms"] -= part["arrival_ms"][0]
    return part


def play(job: Job) -> list[GroupMetrics]:
    """One run of the job, judged by each of its targets."""
    requests = requests_of(job.spec, job.seed, job.setting).copy()
    if job.targets_ms:
        requests["tpot_ms"] = job.targets_ms[0]
    cost = COSTS[job.setting.cost]
    run = simulate(requests, policy(job.policy), cost, cost, job.setting.limits(), log=job.interpolated)
    results = with_interpolated_gaps(run) if job.interpolated else run.results
    found = []
    for target_ms in job.targets_ms or (None,):
        if target_ms is not None:
            requests["tpot_ms"] = target_ms
        found.append(measure(requests, results, job.setting.criterion, run.makespan_ms).groups["all"])
    return found


def with_interpolated_gaps(run: Run) -> NDArray[Any]:
    """The results with NumPy's P99, which of 77 gaps lies between the two largest; the nearest rank is the largest.

    The gaps are the iterations after a request's first token, so none may have been preempted.
    """
    results = run.results.copy()
    ends_ms = run.log["start_ms"] + run.log["latency_ms"]
    several = np.flatnonzero(results["tokens"] > 1)
    first = np.searchsorted(ends_ms, results["first_token_ms"][several] - 1e-6)
    last = np.searchsorted(ends_ms, results["finish_ms"][several] - 1e-6)
    for row, begin, end in zip(several, first, last, strict=True):
        gaps_ms = np.diff(ends_ms[begin : end + 1])
        if len(gaps_ms) != results["tokens"][row] - 1:
            raise ValueError(f"request {row}: {len(gaps_ms)} iterations for {results['tokens'][row]} tokens")
        results["p99_gap_ms"][row] = np.quantile(gaps_ms, 0.99)
    return results
