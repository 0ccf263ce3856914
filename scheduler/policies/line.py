"""Prefills in the order in which they are to be served, so that the time of any number of tokens is one look-up.

A batch of c prompt tokens takes them from the front of the line, as vLLM allocates; REACH[i] is the sum of the
remainders up to place i, PREFIXES[i] that of the prefixes. Time never falls as c grows, so a budget is a bisection.
"""

from __future__ import annotations

from ..compiled import compiled
from ..cost.look_up import bound_ticks
from ..cost.record import OUTSIDE, Cost
from ..heap import sink
from ..state import LINE, NEVER, PREFIXES, QUEUE, REACH, State, give, mean_context, pages_for

# A key is rank * 2^26 + place in the queue.
PLACE_BITS = 26
PLACES = 1 << PLACE_BITS


@compiled
def line_up(state: State, sort: bool, tokens: int, most: int) -> None:
    """Makes the LINE: at least `tokens` prompt tokens and `most` requests, if there are so many that can be served.

    sort: by `state.keys`, which it destroys; else in queue order. Nobody overtakes a request that finds no pages,
    but those who hold theirs. All who stand in the line can be served together.
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
    s["line"] = 0
    for i in range(s["queued"]):
        if (reach >= tokens and s["line"] >= most) or (blocked and not holders):
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
        state.slots[LINE, s["line"]] = slot
        state.slots[REACH, s["line"]] = reach
        state.slots[PREFIXES, s["line"]] = prefixes
        s["line"] += 1


@compiled
def line_tokens(state: State, budget: int) -> int:
    """Prompt tokens that the line can get in one iteration of at most `budget` tokens, the engine's limits kept."""
    s = state.scalars[0]
    if not s["line"]:
        return 0
    most = min(budget, s["max_batch_tokens"]) - s["decoding"]
    return int(max(0, min(most, s["max_chunk_tokens"], state.slots[REACH, s["line"] - 1])))


@compiled
def time_of(state: State, cost: Cost, tokens: int) -> int:
    """Predicted ticks of the decodes and `tokens` prompt tokens of the line; NEVER outside of the cost's domain."""
    s = state.scalars[0]
    chunks = 0
    prefix = 0
    if tokens > 0:
        reach = state.slots[REACH]
        low = 0
        high = s["line"] - 1
        while low < high:
            middle = (low + high) >> 1
            if reach[middle] >= tokens:
                high = middle
            else:
                low = middle + 1
        chunks = low + 1
        prefix = state.slots[PREFIXES, low]
    ticks = bound_ticks(cost, s["decoding"], mean_context(state), s["longest_context"], tokens, prefix, chunks)
    return NEVER if ticks == OUTSIDE else ticks


@compiled
def tokens_within(state: State, cost: Cost, ticks: int, most: int) -> int:
    """Most prompt tokens, up to `most`, whose batch takes at most `ticks`; 0 also where the decodes alone take more."""
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
def serve(state: State, tokens: int) -> None:
    """Gives `tokens` prompt tokens along the line."""
    given = 0
    for i in range(state.scalars[0]["line"]):
        if given >= tokens:
            break
        slot = state.slots[LINE, i]
        chunk = min(tokens, state.slots[REACH, i]) - given
        give(state, slot, chunk)
        given += chunk
