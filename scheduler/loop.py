"""The simulator's compiled loop: arrivals, decision, iteration, tokens."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tables.lookup import OUTSIDE, TICKS_PER_MS
from .compiled import compiled
from .cost.cost_record import FACTOR_BITS, Cost
from .dtypes import Refusal, Status
from .iteration import World, give_tokens, make_pages
from .policies.registry import accepts, decide, observe, place
from .serving_state import (
    DECODES,
    NEVER,
    NO_TARGET,
    State,
    batch_ticks,
    count_support,
    free_slot,
    join_queue,
    mean_context,
    new_slot,
    next_deadline,
    pages_for,
)

DONE, SLICE_END, OUTSIDE_POLICY_COST, OUTSIDE_TRUE_COST, STUCK = range(5)
REFUSED = int(Status.REFUSED)
NOT_REFUSED, TOO_LONG, KV_CAPACITY, NO_OUTPUT, BY_POLICY = range(len(Refusal))
HALF_FACTOR = 1 << (FACTOR_BITS - 1)


@compiled
def next_arrival(workload: NDArray[Any], arrived: NDArray[np.int64]) -> int:
    """Ticks at which the next request arrives."""
    arrival_ms: float = workload[arrived[0]]["arrival_ms"]
    return math.ceil(arrival_ms * TICKS_PER_MS)


@compiled
def arrive(
    workload: NDArray[Any], results: NDArray[Any], arrived: NDArray[np.int64], state: State, belief: Cost
) -> None:
    """Requests that have arrived join the queue or are refused: by the policy, as too long for the engine, or without
    output."""
    s = state.scalars[0]
    while arrived[0] < len(workload) and next_arrival(workload, arrived) <= s["now"]:
        row = arrived[0]
        arrived[0] += 1
        given = workload[row]
        tokens = given["prompt_tokens"] + given["output_tokens"]
        refusal = NOT_REFUSED
        if given["output_tokens"] < 1:
            refusal = NO_OUTPUT
        elif tokens > s["max_request_tokens"]:
            refusal = TOO_LONG
        elif pages_for(state, tokens) > s["pages"]:
            refusal = KV_CAPACITY
        if refusal != NOT_REFUSED:
            results[row]["status"] = REFUSED
            results[row]["refusal"] = refusal
            continue
        slot = new_slot(state)
        fill_record(state, slot, row, given)
        if accepts(state, belief, slot):
            place(state, slot)
            join_queue(state, slot)
        else:
            results[row]["status"] = REFUSED
            results[row]["refusal"] = BY_POLICY
            free_slot(state, slot)


@compiled
def fill_record(state: State, slot: int, row: int, given: Any) -> None:
    """Writes a request of WORKLOAD into its slot; a target of nan is no target."""
    request = state.requests[slot]
    arrival = math.ceil(given["arrival_ms"] * TICKS_PER_MS)
    request["row"] = row
    request["arrival"] = arrival
    request["first_deadline"] = arrival + target_ticks(given["ttft_ms"], NEVER)
    request["schedule"] = request["first_deadline"]
    request["last_deadline"] = arrival + target_ticks(given["ttlt_ms"], NEVER)
    request["tpot"] = target_ticks(given["tpot_ms"], NO_TARGET)
    request["last_token"] = arrival
    request["target"] = given["prompt_tokens"]
    request["computed"] = given["cached_tokens"]
    request["generated"] = 0
    request["kept_gap"] = 0
    request["schedule_misses"] = 0
    request["preemptions"] = 0
    request["output_estimate"] = given["output_estimate"]
    request["chunk"] = 0
    request["pages"] = 0
    request["application"] = given["application"]
    request["priority"] = given["priority"]
    request["guard"] = given["guard"]
    request["batch_class"] = given["batch_class"]
    request["relegated"] = 0


@compiled
def target_ticks(target_ms: float, none: int) -> int:
    """Whole ticks within a target: a time of whole ticks meets both or neither."""
    if not target_ms * TICKS_PER_MS < none:
        return none
    return math.floor(target_ms * TICKS_PER_MS)


@compiled
def run_iterations(world: World, state: State, belief: Cost, truth: Cost, log: NDArray[Any], most: int) -> int:
    """Up to `most` iterations; `log` gets a row of each unless it is empty. Returns the reason of the stop."""
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
            return OUTSIDE_POLICY_COST
        if not s["decoding"] and not s["chosen"]:
            return STUCK
        count_support(state, belief)
        ticks = batch_ticks(state, truth, s["chunk_tokens"], s["prefix_tokens"], s["chosen"])
        if ticks == OUTSIDE:
            return OUTSIDE_TRUE_COST
        factor = world.factors[s["iteration"] % len(world.factors)]
        ticks = max(1, (ticks * factor + HALF_FACTOR) >> FACTOR_BITS) + world.scheduling
        if len(log):
            write_row(log[i], state, belief, ticks)
        s["now"] += ticks
        s["iteration"] += 1
        observe(state, ticks)
        give_tokens(world, state)
    return SLICE_END


@compiled
def write_row(row: Any, state: State, belief: Cost, ticks: int) -> None:
    """The iteration that was decided, which takes `ticks`."""
    s = state.scalars[0]
    model = state.parameters[0]["deadline"]
    slack = NEVER
    for i in range(s["decoding"]):
        slack = min(slack, next_deadline(state.requests[state.slots[DECODES, i]], model) - s["now"])
    bound = batch_ticks(state, belief, s["chunk_tokens"], s["prefix_tokens"], s["chosen"])
    row["start_ms"] = s["now"] / TICKS_PER_MS
    row["latency_ms"] = ticks / TICKS_PER_MS
    row["bound_ms"] = bound / TICKS_PER_MS if bound != OUTSIDE else np.nan
    row["slack_ms"] = slack / TICKS_PER_MS if s["decoding"] else np.nan
    row["decodes"] = s["decoding"]
    row["context_tokens"] = mean_context(state)
    row["chunk_tokens"] = s["chunk_tokens"]
    row["prefix_tokens"] = s["prefix_tokens"]
    row["chunks"] = s["chosen"]
    row["queued"] = s["queued"]
    row["pages_used"] = s["pages_used"]
