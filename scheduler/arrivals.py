"""Requests that arrive: from a row of the workload to a slot in the prefill queue, or refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tables.lookup import TICKS_PER_MS
from .compiled import compiled
from .cost.record import Cost
from .policies.decide import accepts, place
from .requests import Status
from .state import NEVER, NO_TARGET, State, free_slot, join_queue, new_slot, pages_for

REFUSED = int(Status.REFUSED)


@compiled
def next_arrival(workload: NDArray[Any], arrived: NDArray[np.int64]) -> int:
    """Ticks at which the next request is there."""
    arrival_ms: float = workload[arrived[0]]["arrival_ms"]
    return math.ceil(arrival_ms * TICKS_PER_MS)


@compiled
def arrive(
    workload: NDArray[Any], results: NDArray[Any], arrived: NDArray[np.int64], state: State, belief: Cost
) -> None:
    """Everyone who is there by now joins the queue or is refused: by the policy, as longer than the engine holds, or
    because no output is wanted."""
    s = state.scalars[0]
    while arrived[0] < len(workload) and next_arrival(workload, arrived) <= s["now"]:
        row = arrived[0]
        arrived[0] += 1
        given = workload[row]
        tokens = given["prompt_tokens"] + given["output_tokens"]
        too_long = tokens > s["max_request_tokens"] or pages_for(state, tokens) > s["pages"]
        if too_long or given["output_tokens"] < 1:
            results[row]["status"] = REFUSED
            continue
        slot = new_slot(state)
        fill_record(state, slot, row, given)
        if accepts(state, belief, slot):
            place(state, slot)
            join_queue(state, slot)
        else:
            results[row]["status"] = REFUSED
            free_slot(state, slot)


@compiled
def fill_record(state: State, slot: int, row: int, given: Any) -> None:
    """A request of WORKLOAD as the state holds it; targets that are nan are none."""
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
    """Whole ticks within a target: a time keeps the one if and only if it keeps the other."""
    if not target_ms * TICKS_PER_MS < none:
        return none
    return math.floor(target_ms * TICKS_PER_MS)
