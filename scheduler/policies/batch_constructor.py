"""SlidingServe's batch constructor (Algorithm 2): the prefills to complete when some would miss their TTFT.

Each request at risk is an anchor; a 0/1 knapsack finds the most valuable set within its slack that holds the anchor.
The first CANDIDATES of the order take part, and a set is a whole number with a bit for each. The knapsack keeps all
non-dominated pairs of weight and value, so it is exact. Ties go to the earlier request.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tables.lookup import OUTSIDE
from ..compiled import compiled
from ..cost.look_up import bound_ticks
from ..cost.record import Cost
from ..serving_state import ORDER, SCHEDULE, State, mean_context, next_deadline
from .order import time_of, tokens_within

CANDIDATES = 32


@compiled
def first_slack(request: Any, now: int) -> int:
    """Ticks until a queued request's next token is due: its first, or the next one after a preemption."""
    return int(min(next_deadline(request, SCHEDULE), request["last_deadline"]) - now)


@compiled
def construct(state: State, cost: Cost, most: int, within: int, current: int) -> int:
    """Bits of the places whose prefills this iteration completes; 0: no request is at risk, or no set helps.

    most: prompt tokens within the budget B. within: prompt tokens within T_cur, `current` ticks; the printed capacity
    of an anchor ignores it. A set that its prefixes make too slow is dropped.
    """
    s = state.scalars[0]
    count = min(s["ordered"], CANDIDATES)
    slack = np.empty(CANDIDATES, np.int64)
    rest = np.empty(CANDIDATES, np.int64)
    for i in range(count):
        request = state.requests[state.slots[ORDER, i]]
        slack[i] = first_slack(request, s["now"])
        rest[i] = request["target"] - request["computed"]
    full = time_of(state, cost, most)
    weights = np.empty((2, most + 1), np.int64)
    values = np.empty((2, most + 1), np.float64)
    sets = np.empty((2, most + 1), np.int64)
    best = 0
    best_count = 0
    best_value = 0.0
    best_tokens = 0
    for anchor in range(count):
        if not 0 < slack[anchor] < full:
            continue
        capacity = min(within, tokens_within(state, cost, slack[anchor], most))
        if rest[anchor] > capacity:
            continue
        chosen, value = best_set(slack[:count], rest[:count], anchor, capacity, weights, values, sets)
        tokens = 0
        size = 0
        for i in range(count):
            if chosen >> i & 1:
                tokens += rest[i]
                size += 1
        if (size, value, tokens) > (best_count, best_value, best_tokens) and in_time(
            state, cost, chosen, min(current, slack[anchor])
        ):
            best, best_count, best_value, best_tokens = chosen, size, value, tokens
    return best


@compiled
def in_time(state: State, cost: Cost, chosen: int, ticks: int) -> bool:
    """Whether the batch of the decodes and these whole remainders takes at most `ticks`."""
    s = state.scalars[0]
    tokens = 0
    prefix = 0
    chunks = 0
    for i in range(min(s["ordered"], CANDIDATES)):
        if chosen >> i & 1:
            request = state.requests[state.slots[ORDER, i]]
            tokens += request["target"] - request["computed"]
            prefix += request["computed"]
            chunks += 1
    time = bound_ticks(cost, s["decoding"], mean_context(state), s["longest_context"], tokens, prefix, chunks)
    return bool(time != OUTSIDE and time <= ticks)


@compiled
def best_set(slack, rest, anchor: int, capacity: int, weights, values, sets) -> tuple[int, float]:  # type: ignore[no-untyped-def]
    """(bits of the anchor's best set, its value) among requests with no less slack, within `capacity` tokens.

    Value of request j: 1 / (s_j / sum s + r_j / sum r) over all of them (Eq. 18). slack, rest: int64 (requests,).
    weights, values, sets: scratch (2, capacity + 1 or more), the non-dominated sets so far and those after the next
    request, by rising weight and therefore by rising value.
    """
    all_slack = 0.0
    all_rest = 0.0
    for j in range(len(slack)):
        if slack[j] >= slack[anchor]:
            all_slack += slack[j]
            all_rest += rest[j]
    left = capacity - rest[anchor]
    old = 0
    size = 1
    weights[0, 0] = sets[0, 0] = 0
    values[0, 0] = 0.0
    for j in range(len(slack)):
        if j == anchor or slack[j] < slack[anchor] or rest[j] > left:
            continue
        value = 1.0 / (slack[j] / all_slack + rest[j] / all_rest)
        new = 1 - old
        merged = 0
        without = 0
        with_j = 0
        top = -1.0
        while without < size or with_j < size:
            if with_j < size and weights[old, with_j] + rest[j] > left:
                with_j = size  # the weights rise: no further one fits
                continue
            if with_j == size or (without < size and weights[old, without] <= weights[old, with_j] + rest[j]):
                weight, worth, bits = weights[old, without], values[old, without], sets[old, without]
                without += 1
            else:
                weight = weights[old, with_j] + rest[j]
                worth = values[old, with_j] + value
                bits = sets[old, with_j] | (1 << j)
                with_j += 1
            if worth > top:
                if merged and weights[new, merged - 1] == weight:
                    merged -= 1
                weights[new, merged], values[new, merged], sets[new, merged] = weight, worth, bits
                merged += 1
                top = worth
        old = new
        size = merged
    own = 1.0 / (slack[anchor] / all_slack + rest[anchor] / all_rest)
    return int(sets[old, size - 1] | (1 << anchor)), float(values[old, size - 1] + own)
