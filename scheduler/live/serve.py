"""The serving loop: the simulator's functions on the same state, with an engine and a clock in place of a true cost."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ...profiler.timing import quiet_gc
from ...tables.calibrator import Calibrator
from ...tables.cost_table import CostTable
from ...tables.lookup import TICKS_PER_MS
from ..cost import OUTSIDE, Cost, from_table, with_factor
from ..iteration import give_tokens, make_pages, sum_up_unfinished
from ..loop import OUTSIDE_POLICY_COST, STUCK, arrive, next_arrival
from ..policies import Policy
from ..policies.registry import decide, observe
from ..serving_state import Limits, count_support, empty_state
from ..simulate import Conditions, Run, refusal, world_of
from ..workloads.workload import check_requests
from .executor import Executor, batch_of
from .in_flight import NOT_IN_FLIGHT, InFlight, InFlightRequests, cancel
from .log import IterationLog

PATIENCE_MS = 50.0  # the longest wait without looking up
SHOWN_EVERY_MS = 250.0
RESERVE_DECAY = 0.9  # of the moving average of what the host takes between decision and engine


class LiveCosts(NamedTuple):
    """A table's two surfaces, as policies read them."""

    bound: Cost
    expected: Cost

    @classmethod
    def of(cls, table: CostTable) -> LiveCosts:
        return cls(from_table(table, "bound"), from_table(table, "expected"))


@dataclass(frozen=True, slots=True)
class Glance:
    """Now and then, for whoever watches. last_ms and budget_ms: of the last iteration; nan without decodes."""

    now_ms: float
    arrived: int
    running: int
    waiting: int
    iterations: int
    last_ms: float
    budget_ms: float
    missed: int  # iterations over the bound


@dataclass(frozen=True, slots=True)
class LiveRun:
    """run: as the simulator gives it, with a log of LIVE_ITERATION. texts: output token ids of each row that has any.

    left: who was still in flight at the end. joules: None where the device does not say. stopped: ended before its
    time. pages_lost: that nobody gave back.
    """

    run: Run
    texts: dict[int, list[int]]
    left: tuple[InFlight, ...]
    joules: float | None
    stopped: bool
    pages_lost: int


@dataclass(frozen=True, slots=True)
class Outside:
    """What comes to a run beside its requests.

    cancels: (ms, row) in order of time. until_ms: iterations begin before it. watch: told every SHOWN_EVERY_MS.
    stop: asked before each iteration.
    """

    cancels: Sequence[tuple[float, int]] = ()
    until_ms: float | None = None
    watch: Callable[[Glance], None] | None = None
    stop: Callable[[], bool] = lambda: False


def prompt_tokens(requests: NDArray[Any], vocabulary: int, seed: int) -> Callable[[int], torch.Tensor]:
    """Token ids of a row's prompt, the same in every run."""

    def of(row: int) -> torch.Tensor:
        count = int(requests[row]["prompt_tokens"])
        return torch.from_numpy(np.random.default_rng([seed, row]).integers(vocabulary, size=count))

    return of


def serve(
    requests: NDArray[Any],
    policy: Policy,
    costs: LiveCosts,
    executor: Executor,
    limits: Limits,
    *,
    seed: int = 0,
    calibrator: Calibrator | None = None,
    outside: Outside | None = None,
) -> LiveRun:
    """Serves `requests` (WORKLOAD, in order of arrival) as they come, until all have left or the time is up.

    seed: of the prompts' tokens. Requests that want no output are refused, as are those longer than the limits.
    Raises UsageError for requests that cannot be, DeviceMemoryError where the engine has less room than the limits say.
    """
    wanted = requests.copy()
    wanted["output_tokens"] = np.maximum(wanted["output_tokens"], 1)
    check_requests(wanted, "serve")
    one = _Serving(requests, policy, costs, executor, limits, seed, calibrator, outside or Outside())
    with quiet_gc():
        return one.run()


class _Serving:
    """One run in progress."""

    def __init__(
        self,
        requests: NDArray[Any],
        policy: Policy,
        costs: LiveCosts,
        executor: Executor,
        limits: Limits,
        seed: int,
        calibrator: Calibrator | None,
        outside: Outside,
    ) -> None:
        self.world = world_of(requests, Conditions(until_ms=outside.until_ms))
        self.state = empty_state(len(requests), policy.parameters(), limits)
        self.costs = costs
        self.belief = costs.bound  # a calibrator gives it another factor
        self.executor = executor
        self.calibrator = calibrator
        self.outside = outside
        self.in_flight = InFlightRequests(
            self.state, executor.allocator, prompt_tokens(requests, executor.vocab_size, seed)
        )
        self.log = IterationLog()
        self.reserve = 0.0  # ticks
        self.cancelled = 0
        self.missed = 0
        self.shown_ms = 0.0

    def run(self) -> LiveRun:
        executor, free = self.executor, self.executor.allocator.free_pages
        joules = executor.joules()
        executor.restart()
        stopped = False
        try:
            while not self._over():
                if self.outside.stop():
                    stopped = True
                    break
                if self._busy():
                    self._iterate()
                else:
                    arrival_ms = next_arrival(self.world.workload, self.world.arrived) / TICKS_PER_MS
                    executor.wait(min(arrival_ms, executor.now_ms() + PATIENCE_MS))
            left = tuple(self.in_flight.requests())
        finally:
            self.in_flight.end()
        sum_up_unfinished(self.world, self.state)
        after = executor.joules()
        scalars = self.state.scalars[0]
        run = Run(
            self.world.results,
            self.log.rows(self.costs.expected, self.costs.bound),
            int(scalars["iteration"]),
            float(scalars["now"]) / TICKS_PER_MS,
            int(scalars["exceptions"]),
            int(scalars["relegations"]),
            int(scalars["by_order"]),
            int(scalars["unmeasured"]),
        )
        used = None if joules is None or after is None else after - joules
        return LiveRun(run, self.in_flight.texts, left, used, stopped, free - executor.allocator.free_pages)

    def _over(self) -> bool:
        """After whoever is there by now has joined, been refused or cancelled."""
        s = self.state.scalars[0]
        s["now"] = max(int(s["now"]), math.ceil(self.executor.now_ms() * TICKS_PER_MS))
        arrive(self.world.workload, self.world.results, self.world.arrived, self.state, self.belief)
        self._cancel(int(s["now"]) / TICKS_PER_MS)
        return bool(s["now"] >= self.world.until) or (
            not self._busy() and int(self.world.arrived[0]) == len(self.world.workload)
        )

    def _busy(self) -> bool:
        s = self.state.scalars[0]
        return bool(s["queued"] or s["decoding"])

    def _cancel(self, now_ms: float) -> None:
        cancels = self.outside.cancels
        while self.cancelled < len(cancels) and cancels[self.cancelled][0] <= now_ms:
            slot = cancel(self.world, self.state, cancels[self.cancelled][1])
            if slot != NOT_IN_FLIGHT:
                self.in_flight.drop(slot)
            self.cancelled += 1

    def _iterate(self) -> None:
        s, executor = self.state.scalars[0], self.executor
        make_pages(self.state)
        start = int(s["now"])
        # The budget ends at the deadline, and the engine begins only when the host has laid out the batch.
        s["now"] = start + round(self.reserve)
        begin = time.perf_counter()
        code = decide(self.state, self.belief)
        decision_us = (time.perf_counter() - begin) * 1e6
        s["now"] = start
        if code == OUTSIDE:
            raise refusal(OUTSIDE_POLICY_COST, self.state, self.belief)
        if not s["decoding"] and not s["chosen"]:
            raise refusal(STUCK, self.state, self.belief)
        count_support(self.state, self.belief)
        decodes, chunks = self.in_flight.work()
        called_ms = executor.now_ms()
        tokens = executor.iterate(decodes, chunks)
        end_ms = executor.now_ms()
        engine_ms = end_ms - called_ms
        ticks = max(1, math.ceil(end_ms * TICKS_PER_MS) - start)
        row = self.log.add(self.state, self.belief, ticks, engine_ms, decision_us)
        self.missed += bool(engine_ms > row["bound_ms"][0])
        host = max(0.0, ticks - engine_ms * TICKS_PER_MS)
        self.reserve = RESERVE_DECAY * self.reserve + (1 - RESERVE_DECAY) * host if len(self.log) > 1 else host
        self.in_flight.take(tokens)
        s["now"] = start + ticks
        s["iteration"] += 1
        observe(self.state, ticks)
        give_tokens(self.world, self.state)
        self.in_flight.land()
        if self.calibrator is not None:
            self.calibrator.observe(batch_of(decodes, chunks), engine_ms)
            self.belief = with_factor(self.belief, self.calibrator.table.bound.factor)
        if self.outside.watch is not None and end_ms >= self.shown_ms:
            self.shown_ms = end_ms + SHOWN_EVERY_MS
            self.outside.watch(self._glance(end_ms, row))

    def _glance(self, now_ms: float, row: NDArray[Any]) -> Glance:
        s = self.state.scalars[0]
        return Glance(
            now_ms,
            int(self.world.arrived[0]),
            int(s["decoding"]),
            int(s["queued"]),
            len(self.log),
            float(row["latency_ms"][0]),
            float(row["slack_ms"][0]),
            self.missed,
        )
