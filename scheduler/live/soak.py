"""Everything that can go wrong with requests, for a long time: what is left over, lost or grown afterwards?

Waves of bursts over capacity, prompts at and over the length limit, outputs of no tokens, cancels at any moment, and
KV pages for two of the longest requests, so that preemption is the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ...files.host import resident_bytes
from ...files.strict import Count, Strict
from ..dtypes import Status
from ..policies import Policy
from ..serving_state import Limits
from ..workloads.workload import empty_requests
from .runner import LiveRunner
from .serve import LiveCosts, LiveRun, Outside, serve

WAVE_REQUESTS = 48
BURSTS = 3
BURST_EVERY_MS = 400.0
LONGEST_TOKENS = 2048  # of a request, where the table holds longer ones
LONGEST_REQUESTS_HELD = 2  # KV pages for so many
HANGS_AFTER_MS = 120_000.0
SETTLED = 0.2  # of the time, after which memory may no longer grow: minute 2 of 10
MOST_GROWTH = 0.02


class SoakReport(Strict):
    """lost: requests that neither finished nor were refused or cancelled; short: finished with another number of tokens
    than asked for. Memory: resident, of this process, settled after a fifth of the time and at the end.
    """

    seconds: float = Field(description="on the run's clock")
    waves: Count
    requests: Count
    finished: Count
    refused: Count
    cancelled: Count
    preemptions: Count
    lost: Count
    short: Count
    pages_lost: int
    settled_mib: float
    end_mib: float
    stopped: bool

    @property
    def growth(self) -> float:
        return self.end_mib / self.settled_mib - 1

    @property
    def held(self) -> bool:
        return not (self.lost or self.short or self.pages_lost) and self.growth <= MOST_GROWTH


@dataclass(frozen=True, slots=True)
class Wave:
    """requests: WORKLOAD. cancels: (ms, row) in order of time."""

    requests: NDArray[Any]
    cancels: tuple[tuple[float, int], ...]


def wave(rng: np.random.Generator, limits: Limits) -> Wave:
    """Bursts of requests of every kind."""
    longest = limits.max_request_tokens
    requests = empty_requests(WAVE_REQUESTS)
    burst = np.sort(rng.integers(0, BURSTS, WAVE_REQUESTS))
    requests["arrival_ms"] = np.sort(BURST_EVERY_MS * burst + rng.uniform(0, 20, WAVE_REQUESTS))
    output = np.clip(longest / 40 * rng.lognormal(0, 1, WAVE_REQUESTS), 1, longest / 4).astype(int)
    prompt = np.clip(longest / 8 * rng.lognormal(0, 1.2, WAVE_REQUESTS), 1, longest - output).astype(int)
    kind = rng.random(WAVE_REQUESTS)
    prompt = np.where(kind < 0.06, longest - output, prompt)
    prompt = np.where(kind > 0.95, longest - output + rng.integers(1, 50, WAVE_REQUESTS), prompt)
    requests["prompt_tokens"] = prompt
    requests["output_tokens"] = np.where((kind > 0.06) & (kind < 0.1), 0, output)
    requests["ttft_ms"], requests["tpot_ms"] = 1000.0, rng.choice([5.0, 20.0, 100.0], WAVE_REQUESTS)
    given_up = np.flatnonzero(rng.random(WAVE_REQUESTS) < 0.2)
    cancels = [(float(requests["arrival_ms"][row] + rng.exponential(500)), int(row)) for row in given_up]
    return Wave(requests, tuple(sorted(cancels)))


def soak(
    runner: LiveRunner,
    policies: Sequence[Policy],
    seconds: float,
    on_wave: Callable[[SoakReport], None] = lambda report: None,
) -> SoakReport:
    """Waves under one policy after another until the time is up. on_wave: told what there is so far."""
    given = runner.limits
    longest = min(given.max_request_tokens, given.pages * given.page_tokens, LONGEST_TOKENS)
    pages = min(given.pages, LONGEST_REQUESTS_HELD * -(-longest // given.page_tokens))
    limits = replace(given, pages=pages, max_request_tokens=longest)
    costs = LiveCosts.of(runner.table)
    rng = np.random.default_rng(runner.seed)
    totals = dict.fromkeys(("requests", "finished", "refused", "cancelled", "preemptions", "lost", "short"), 0)
    spent_s, waves, pages_lost, settled_mib, stopped = 0.0, 0, 0, 0.0, False
    while True:
        made = wave(rng, limits)
        live = serve(
            made.requests,
            policies[waves % len(policies)],
            costs,
            runner.executor,
            limits,
            seed=runner.seed + waves,
            outside=Outside(made.cancels, HANGS_AFTER_MS, None, runner.stop),
        )
        stopped = live.stopped
        if not stopped:
            for name, count in _counted(made, live).items():
                totals[name] += count
        waves += 1
        spent_s += live.run.makespan_ms / 1e3
        pages_lost += live.pages_lost
        memory_mib = resident_bytes() / 2**20
        if spent_s < SETTLED * seconds or not settled_mib:
            settled_mib = memory_mib
        report = SoakReport(
            seconds=spent_s,
            waves=waves,
            pages_lost=pages_lost,
            settled_mib=settled_mib,
            end_mib=memory_mib,
            stopped=stopped,
            **totals,
        )
        on_wave(report)
        if stopped or spent_s >= seconds or report.lost:
            return report


def _counted(made: Wave, live: LiveRun) -> dict[str, int]:
    results = live.run.results
    finished = results["status"] == Status.FINISHED
    wanted = made.requests["output_tokens"]
    texts = np.array([len(live.texts.get(row, ())) for row in range(len(results))])
    return {
        "requests": len(results),
        "finished": int(finished.sum()),
        "refused": int((results["status"] == Status.REFUSED).sum()),
        "cancelled": int((results["status"] == Status.CANCELLED).sum()),
        "preemptions": int(results["preemptions"].sum()),
        "lost": int((results["status"] == Status.UNFINISHED).sum()),
        "short": int((finished & ((results["tokens"] != wanted) | (texts != wanted))).sum()),
    }
