"""The simulator's compiled loop: arrivals, decision, iteration, tokens."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..tables.lookup import TICKS_PER_MS
from .advance import compute_chunks, make_pages, retire, survey
from .arrivals import arrive, next_arrival
from .compiled import compiled
from .cost.factors import FACTOR_BITS
from .cost.look_up import bound_ticks
from .cost.record import OUTSIDE, Cost
from .gaps import keep_gap, p99_gap
from .policies.decide import decide, observe
from .requests import Status
from .state import CHOSEN, DECODES, LEAVE_OUT, NEVER, QUEUE, State, mean_context, next_deadline

DONE, SLICE_END, OUT_OF_BELIEF, OUT_OF_TRUTH, STUCK = range(5)
FINISHED = int(Status.FINISHED)
HALF_FACTOR = 1 << (FACTOR_BITS - 1)

# One row an iteration. latency_ms: scheduling time included. slack_ms: to the earliest deadline of a decode in the
# policy's model, nan without any. bound_ms: what the policy's cost says of the batch, nan outside of its domain.
ITERATION = np.dtype(
    [
        ("start_ms", "f8"),
        ("latency_ms", "f8"),
        ("bound_ms", "f8"),
        ("slack_ms", "f8"),
        ("decodes", "i4"),
        ("context_tokens", "i4"),
        ("chunk_tokens", "i4"),
        ("prefix_tokens", "i4"),
        ("chunks", "i4"),
        ("queued", "i4"),
        ("pages_used", "i4"),
    ]
)


class World(NamedTuple):
    """What the scheduler does not see. heaps: the largest gaps of each request, from starts[i] to starts[i + 1]."""

    workload: NDArray[Any]
    results: NDArray[Any]
    heaps: NDArray[np.int64]
    starts: NDArray[np.int64]
    factors: NDArray[np.int64]
    arrived: NDArray[np.int64]  # (1,): requests that have
    scheduling: int  # ticks
    until: int


@compiled
def run_iterations(world: World, state: State, belief: Cost, truth: Cost, log: NDArray[Any], most: int) -> int:
    """Up to `most` iterations; `log` gets a row of each if it has any. Returns why it stopped."""
    s = state.scalars[0]
    for i in range(most):
        arrive(world.workload, world.results, world.arrived, state, belief)
        while not s["queued"] and not s["decoding"]:
            if world.arrived[0] == len(world.workload):
                return DONE
            arrival = next_arrival(world.workload, world.arrived)
            if arrival >= world.until:
                return DONE
            s["now"] = max(s["now"], arrival)
            arrive(world.workload, world.results, world.arrived, state, belief)
        if s["now"] >= world.until:
            return DONE
        make_pages(state)
        if decide(state, belief) == OUTSIDE:
            return OUT_OF_BELIEF
        if not s["decoding"] and not s["chosen"]:
            return STUCK
        k = mean_context(state)
        ticks = bound_ticks(
            truth, s["decoding"], k, s["longest_context"], s["chunk_tokens"], s["prefix_tokens"], s["chosen"]
        )
        if ticks == OUTSIDE:
            return OUT_OF_TRUTH
        factor = world.factors[s["iteration"] % len(world.factors)]
        ticks = max(1, (ticks * factor + HALF_FACTOR) >> FACTOR_BITS) + world.scheduling
        if len(log):
            write_row(log[i], state, belief, k, ticks)
        s["now"] += ticks
        s["iteration"] += 1
        observe(state, ticks)
        give_tokens(world, state)
    return SLICE_END


@compiled
def write_row(row: Any, state: State, belief: Cost, k: int, ticks: int) -> None:
    s = state.scalars[0]
    model = state.parameters[0]["deadline"]
    slack = NEVER
    for i in range(s["decoding"]):
        slack = min(slack, next_deadline(state.requests[state.slots[DECODES, i]], model) - s["now"])
    bound = bound_ticks(
        belief, s["decoding"], k, s["longest_context"], s["chunk_tokens"], s["prefix_tokens"], s["chosen"]
    )
    row["start_ms"] = s["now"] / TICKS_PER_MS
    row["latency_ms"] = ticks / TICKS_PER_MS
    row["bound_ms"] = bound / TICKS_PER_MS if bound != OUTSIDE else np.nan
    row["slack_ms"] = slack / TICKS_PER_MS if s["decoding"] else np.nan
    row["decodes"] = s["decoding"]
    row["context_tokens"] = k
    row["chunk_tokens"] = s["chunk_tokens"]
    row["prefix_tokens"] = s["prefix_tokens"]
    row["chunks"] = s["chosen"]
    row["queued"] = s["queued"]
    row["pages_used"] = s["pages_used"]


@compiled
def give_tokens(world: World, state: State) -> None:
    """One token to every decode and to every prefill that is whole now; who has all of its tokens leaves."""
    s = state.scalars[0]
    requests = state.requests
    decodes = state.slots[DECODES]
    output_tokens = world.workload["output_tokens"]
    compute_chunks(state)
    now = s["now"]
    kept = 0
    for i in range(s["decoding"]):
        slot = decodes[i]
        request = requests[slot]
        request["computed"] += 1
        gap = now - request["last_token"]
        if gap > request["kept_gap"]:
            row = request["row"]
            request["kept_gap"] = keep_gap(world.heaps[world.starts[row] : world.starts[row + 1]], gap)
        count_token(request, now)
        if request["generated"] == output_tokens[request["row"]]:
            leave(world, state, slot)
        else:
            decodes[kept] = slot
            kept += 1
    s["decoding"] = kept
    late = state.parameters[0]["late"]
    for i in range(s["chosen"]):
        slot = state.slots[CHOSEN, i]
        request = requests[slot]
        if request["computed"] == request["target"]:
            row = request["row"]
            if request["generated"]:  # before it was preempted
                heap = world.heaps[world.starts[row] : world.starts[row + 1]]
                request["kept_gap"] = keep_gap(heap, now - request["last_token"])
            else:
                world.results[row]["first_token_ms"] = now / TICKS_PER_MS
                if now > request["schedule"]:
                    request["schedule"] = NEVER if late == LEAVE_OUT else now
            count_token(request, now)
            if request["generated"] == output_tokens[row]:
                leave(world, state, slot)
            else:
                decodes[s["decoding"]] = slot
                s["decoding"] += 1
    survey(state)


@compiled
def count_token(request: Any, now: int) -> None:
    """The token that an iteration ends with, against the schedule of the request as it came."""
    if now > request["first_deadline"] + request["generated"] * request["tpot"]:
        request["schedule_misses"] += 1
    request["last_token"] = now
    request["generated"] += 1


@compiled
def leave(world: World, state: State, slot: int) -> None:
    """A request that has all of its tokens."""
    result = world.results[state.requests[slot]["row"]]
    result["status"] = FINISHED
    result["finish_ms"] = state.scalars[0]["now"] / TICKS_PER_MS
    sum_up(world, state, slot)
    retire(state, slot)


@compiled
def sum_up(world: World, state: State, slot: int) -> None:
    """Writes tokens and gaps of a request that leaves."""
    request = state.requests[slot]
    row = request["row"]
    result = world.results[row]
    result["tokens"] = request["generated"]
    result["schedule_misses"] = request["schedule_misses"]
    result["preemptions"] = request["preemptions"]
    gaps = request["generated"] - 1
    if gaps > 0:
        heap = world.heaps[world.starts[row] : world.starts[row + 1]]
        result["mean_gap_ms"] = (request["last_token"] / TICKS_PER_MS - result["first_token_ms"]) / gaps
        result["p99_gap_ms"] = p99_gap(heap, gaps) / TICKS_PER_MS
        result["largest_gap_ms"] = heap[len(heap) - 1] / TICKS_PER_MS


@compiled
def sum_up_unfinished(world: World, state: State) -> None:
    """The same for those who are still in flight."""
    s = state.scalars[0]
    for i in range(s["queued"]):
        sum_up(world, state, state.slots[QUEUE, i])
    for i in range(s["decoding"]):
        sum_up(world, state, state.slots[DECODES, i])
