"""Policies taking turns on one device: each run measured, the device's own quiet measured between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engine.host_step import SequenceWork
from ...engine.kv_cache import pages_for
from ...files.errors import UsageError
from ...files.host import installed_version
from ...profiler.condition import SentinelVerdict, judge
from ...profiler.plan import sentinel_point
from ...tables.batch import Batch
from ...tables.calibrator import Calibrator
from ...tables.cost_table import CostTable
from ...tables.fingerprint import require_same
from ..policies import Policy
from ..run_report import CostsV1, RunReport, scheduling_facts, workload_facts
from ..serving_metrics import measure
from ..serving_state import Limits
from ..workloads.workload import Workload
from .executor import Executor
from .in_flight import Stage
from .serve import Glance, LiveCosts, LiveRun, Outside, serve

SENTINEL_WARMUPS = 3
SENTINEL_REPEATS = 3
WARMING_REQUESTS = 6
DRAIN = 1.0  # after the last arrival a run may go on for so much of its time; who is not done then is unfinished


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of one policy, and what came of it. until_ms: when it was ended at the latest."""

    policy: Policy
    workload: Workload
    rate: float
    until_ms: float
    live: LiveRun
    report: RunReport


@dataclass(slots=True)
class LiveRunner:
    """A device under a table. Nothing is served before their fingerprints are found to agree.

    calibrator: one for all policies, since it is the device that it learns. watch: shown what goes on, with the
    policy's name and the rate. on_run: told what came of each run. stop: asked before each iteration.
    Raises FingerprintMismatchError, and UsageError where the engine has fewer pages than the limits say.
    """

    table: CostTable
    executor: Executor
    limits: Limits
    criterion: str
    seed: int = 0
    calibrator: Calibrator | None = None
    watch: Callable[[str, float, Glance], None] | None = None
    on_run: Callable[[Outcome], None] = lambda outcome: None
    stop: Callable[[], bool] = lambda: False
    stopped: bool = False
    sentinels: list[tuple[float, int]] = field(default_factory=list)  # (ms, after how many runs)
    runs: int = 0

    def __post_init__(self) -> None:
        require_same(self.table.fingerprint, self.executor.fingerprint, "the table and the engine it is to schedule")
        if self.limits.pages > self.executor.allocator.free_pages:
            raise UsageError(
                f"the limits name {self.limits.pages:,} KV pages and the engine has "
                f"{self.executor.allocator.free_pages:,}; expected as many at least: give fewer --kv-tokens"
            )

    def warm_up(self, policy: Policy, workload: Workload) -> None:
        """A few requests that nobody counts: kernels and policies are compiled, caches are filled."""
        requests = workload.requests[:WARMING_REQUESTS].copy()
        requests["arrival_ms"] = 0.0
        requests["output_tokens"] = np.minimum(requests["output_tokens"], 20)
        serve(requests, policy, LiveCosts.of(self.table), self.executor, self.limits, seed=self.seed)

    def run(self, policy: Policy, workload: Workload, rate: float, seconds: float) -> Outcome:
        """One policy on one workload; the sentinel is read before."""
        self.read_sentinel()
        watch, end_ms = self.watch, until_ms(seconds)
        outside = Outside(
            until_ms=end_ms,
            watch=None if watch is None else lambda glance: watch(policy.name, rate, glance),
            stop=self.stop,
        )
        live = serve(
            workload.requests,
            policy,
            LiveCosts.of(self.table),
            self.executor,
            self.limits,
            seed=self.seed,
            calibrator=self.calibrator,
            outside=outside,
        )
        self.runs += 1
        self.stopped = self.stopped or live.stopped
        return Outcome(policy, workload, rate, end_ms, live, self._report(policy, workload, live))

    def turns(
        self, policies: Sequence[Policy], workloads: Sequence[tuple[float, Workload]], seconds: float
    ) -> list[Outcome]:
        """All policies on each workload, another one first each time; as far as it got when it is stopped."""
        outcomes: list[Outcome] = []
        for turn, (rate, workload) in enumerate(workloads):
            first = turn % len(policies)
            for policy in (*policies[first:], *policies[:first]):
                if self.stopped:
                    return outcomes
                outcomes.append(self.run(policy, workload, rate, seconds))
                self.on_run(outcomes[-1])
        return outcomes

    def read_sentinel(self) -> None:
        """The same mixed batch every time, timed."""
        executor, allocator = self.executor, self.executor.allocator
        n, k, c, u = sentinel_point(self.table.domain)
        rng = np.random.default_rng(self.seed)

        def work(start: int, tokens: int) -> SequenceWork:
            ids = rng.integers(executor.vocab_size, size=tokens).tolist()
            return SequenceWork(ids, start, allocator.allocate(pages_for(start + tokens)))

        decodes, chunks = [work(k - 1, 1) for _ in range(n)], [work(u, c)]
        for repeat in range(SENTINEL_WARMUPS + SENTINEL_REPEATS):
            begin = executor.now_ms()
            executor.iterate(decodes, chunks)
            if repeat >= SENTINEL_WARMUPS:
                self.sentinels.append((executor.now_ms() - begin, self.runs))
        for held in (*decodes, *chunks):
            allocator.free(list(held.pages))

    def quiet(self) -> SentinelVerdict:
        """The verdict on all readings so far."""
        latency_ms, order = (np.array(column) for column in zip(*self.sentinels, strict=True))
        return judge(latency_ms, order.astype(np.int64))

    def level(self) -> float:
        """The sentinel's median over what the table expects of it."""
        expected = self.table.expected_ms(Batch.of(*sentinel_point(self.table.domain)))
        return float(np.median([ms for ms, _ in self.sentinels])) / expected

    def _report(self, policy: Policy, workload: Workload, live: LiveRun) -> RunReport:
        believed = f"bound of table {self.table.document.content_sha256[:12]}"
        run = live.run
        return RunReport(
            created_by=f"chunkfit {installed_version('chunkfit')}",
            kind="live",
            device=self.executor.fingerprint.title(),
            policy=policy.name,
            policy_options={
                name: "/".join(map(str, value)) if isinstance(value, tuple) else value
                for name, value in policy.options.items()
            },
            workload=workload_facts(workload),
            costs=CostsV1(true="measured", policy=believed + (", calibrated online" if self.calibrator else "")),
            metrics=measure(workload.requests, run.results, self.criterion, max(run.makespan_ms, 1e-3)),
            counts={
                "iterations": run.iterations,
                **run.support_counts(),
                "prefill_tokens": int(run.log["chunk_tokens"].sum(dtype=np.int64)),
                "decode_tokens": int(run.log["decodes"].sum(dtype=np.int64)),
                **{f"left_{stage}": sum(request.stage is stage for request in live.left) for stage in Stage},
            },
            exceptions={"aged_prefill": run.exceptions, "relegated": run.relegations},
            scheduling=scheduling_facts(run.log["decision_us"], added=self.executor.real_time),
            joules=live.joules,
        )


def until_ms(seconds: float) -> float:
    """When a run ends whose requests come within `seconds`."""
    return 1e3 * seconds * (1 + DRAIN)


def joined_log(outcomes: Sequence[Outcome]) -> NDArray[Any]:
    """The iterations of all of them."""
    logs: NDArray[Any] = np.concatenate([outcome.live.run.log for outcome in outcomes])
    return logs
