"""Prefills in order, with cumulative sums: the time of a batch with any number of prompt tokens is one look-up.

A batch of c prompt tokens takes them from the front of the order, as vLLM does. CUMULATIVE_TOKENS[i] sums the remaining
prompt tokens up to place i, CUMULATIVE_PREFIXES[i] the prefixes. Time does not fall as c grows, so bisection finds the
longest chunk within a time budget.
"""

from __future__ import annotations

from typing import Any

from ...tables.lookup import OUTSIDE
from ..compiled import compiled
from ..cost.cost_record import Cost
from ..cost.look_up import bound_ticks
from ..serving_state import (
    CUMULATIVE_PREFIXES,
    CUMULATIVE_TOKENS,
    NEVER,
    ORDER,
    QUEUE,
    State,
    give,
    mean_context,
    pages_for,
)

# A key is rank * 2^26 + place in the queue.
PLACE_BITS = 26
PLACES = 1 << PLACE_BITS


@compiled
def put_in_order(state: State, sort: bool, tokens: int, most: int) -> None:
    """Fills the row ORDER until it holds `tokens` prompt tokens and `most` requests, or no more fit together.

    sort: by `state.keys`, which this destroys; otherwise in queue order. Only requests that hold pages overtake a
    request that finds no pages.
    """
    s = state.scalars[0]
    requests = state.requests
    keys = state.keys
    left = s["queued"]
    if sort:
        for i in range(left // 2 - 1, -1, -1):
            sink(keys, left, i, keys[i])
    pages = s["pages"] - s["pages_used"]
    places = s["max_running"] - s["running"]
    holders = s["running"] - s["decoding"]  # of pages, still to come in the queue
    blocked = False
    reach = 0
    prefixes = 0
    s["ordered"] = 0
    for i in range(s["queued"]):
        if (reach >= tokens and s["ordered"] >= most) or (blocked and not holders):
            break
        place = i
        if sort:
            place = keys[0] & (PLACES - 1)
            left -= 1
            sink(keys, left, 0, keys[left])
        slot = state.slots[QUEUE, place]
        request = requests[slot]
        if request["pages"]:
            holders -= 1
        else:
            need = pages_for(state, request["target"] + 1)
            if blocked or not places or need > pages:
                blocked = True
                continue
            pages -= need
            places -= 1
        if prefixes + request["computed"] > s["max_prefix_tokens"]:
            continue
        reach += request["target"] - request["computed"]
        prefixes += request["computed"]
        state.slots[ORDER, s["ordered"]] = slot
        state.slots[CUMULATIVE_TOKENS, s["ordered"]] = reach
        state.slots[CUMULATIVE_PREFIXES, s["ordered"]] = prefixes
        s["ordered"] += 1


@compiled
def ordered_tokens(state: State, budget: int) -> int:
    """The most prompt tokens of the order in one iteration of at most `budget` tokens, within the engine's limits."""
    s = state.scalars[0]
    if not s["ordered"]:
        return 0
    most = min(budget, s["max_batch_tokens"]) - s["decoding"]
    return int(max(0, min(most, s["max_chunk_tokens"], state.slots[CUMULATIVE_TOKENS, s["ordered"] - 1])))


@compiled
def time_of(state: State, cost: Cost, tokens: int) -> int:
    """Predicted ticks of the decodes and `tokens` prompt tokens of the order; NEVER outside the cost's domain."""
    s = state.scalars[0]
    chunks = 0
    prefix = 0
    if tokens > 0:
        reach = state.slots[CUMULATIVE_TOKENS]
        low = 0
        high = s["ordered"] - 1
        while low < high:
            middle = (low + high) >> 1
            if reach[middle] >= tokens:
                high = middle
            else:
                low = middle + 1
        chunks = low + 1
        prefix = int(state.slots[CUMULATIVE_PREFIXES, low])
    # Not `batch_ticks`: another call here makes slidingserve 12% slower.
    ticks = bound_ticks(cost, s["decoding"], mean_context(state), s["longest_context"], int(tokens), prefix, chunks)
    return NEVER if ticks == OUTSIDE else ticks


@compiled
def tokens_within(state: State, cost: Cost, ticks: int, most: int) -> int:
    """The most prompt tokens, up to `most`, whose batch takes at most `ticks`; 0 where the decodes alone take more."""
    low = 0
    high = most
    if high and time_of(state, cost, high) <= ticks:
        return high
    while low < high:
        middle = (low + high + 1) >> 1
        if time_of(state, cost, middle) <= ticks:
            low = middle
        else:
            high = middle - 1
    return low


@compiled
def allocate(state: State, tokens: int) -> None:
    """Allocates `tokens` prompt tokens in order."""
    given = 0
    for i in range(state.scalars[0]["ordered"]):
        if given >= tokens:
            break
        slot = state.slots[ORDER, i]
        chunk = min(tokens, state.slots[CUMULATIVE_TOKENS, i]) - given
        give(state, slot, chunk)
        given += chunk


@compiled
def sink(heap: Any, size: int, at: int, value: int) -> None:
    """Puts `value` at `at` or below it, in a heap of `size` numbers whose place `at` is free."""
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = value
