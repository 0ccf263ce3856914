"""SlidingServe (arXiv 2606.05933): sorter, sliding chunker and batch constructor, each of them optional.

Corrections of the printed algorithms are documented at the functions. Without all three parts the policy is
`sarathi-edf` of the same budget.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field

from ...tables.lookup import MAX_TICKS, OUTSIDE
from ..compiled import compiled
from ..cost.cost_record import Cost
from ..serving_state import CUMULATIVE_TOKENS, DECODES, ORDER, QUEUE, SCHEDULE, State, batch_ticks, give, next_deadline
from .order import PLACE_BITS, allocate, ordered_tokens, put_in_order, time_of, tokens_within
from .policy_options import Deadline, Flag, Late, PolicyOptions, Tokens, Weight

CANDIDATES = 32  # of the batch constructor: a set of them is a whole number
TERNARY_WIDTH = 30
ROUNDING = 8  # ticks, 0.0005 ms: look-ups of equal times may differ by so much: that is a tie
URGENT, NORMAL, HOPELESS = range(3)


class SlidingServeOptions(PolicyOptions):
    number = "token_budget"
    token_budget: Tokens = 512
    deadline: Deadline = "schedule"
    late: Late = "rebase"
    sorter: Flag = True
    chunker: Flag = True
    constructor: Flag = True
    urgency: Weight = Field(0.3, description="share of the slack that an urgent prefill needs")
    throughput_decay: Weight = Field(0.95, description="share of itself that the average keeps")


@compiled
def slidingserve(state: State, cost: Cost) -> int:
    """Allocates the chunks of this iteration. OUTSIDE where the cost's domain lacks the decodes alone, else 0."""
    p = state.parameters[0]
    if batch_ticks(state, cost, 0, 0, 0) == OUTSIDE:
        return OUTSIDE
    if p["sorter"]:
        rank(state)
    put_in_order(state, p["sorter"] == 1, 2 * p["token_budget"], CANDIDATES if p["constructor"] else 1)
    most = ordered_tokens(state, p["token_budget"])
    if not p["chunker"] and not p["constructor"]:
        allocate(state, most)
        return 0
    current, following = windows(state)
    within = tokens_within(state, cost, current, most)
    if p["constructor"]:
        chosen = construct(state, cost, most, within, current)
        if chosen:
            for i in range(CANDIDATES):
                if chosen >> i & 1:
                    slot = state.slots[ORDER, i]
                    give(state, slot, state.requests[slot]["target"] - state.requests[slot]["computed"])
            return 0
    if p["chunker"]:
        allocate(state, slide(state, cost, within, tokens_within(state, cost, following, most), most))
    else:
        allocate(state, most)
    return 0


@compiled
def rank(state: State) -> None:
    """Keys of the sorter (Eq. 13): guarded first, urgent before others, then the shortest remainder.

    Urgent: at the recent throughput, the remainder needs more than a share of the slack (Eqs. 10 and 11). Read
    literally, a late request would be the most urgent. Section 5.2 puts it behind the requests that can still be in
    time, and so does this function.
    """
    s = state.scalars[0]
    requests = state.requests
    urgency = state.parameters[0]["urgency"]
    throughput = s["throughput"]
    for i in range(s["queued"]):
        request = requests[state.slots[QUEUE, i]]
        rest = int(request["target"] - request["computed"])
        slack = first_slack(request, s["now"])
        level = NORMAL
        if slack <= 0 or rest >= slack * throughput > 0:
            level = HOPELESS
        elif rest > urgency * slack * throughput > 0:
            level = URGENT
        key = (0 if request["guard"] else 3) + level
        state.keys[i] = ((key << 32) + rest << PLACE_BITS) + i


@compiled
def windows(state: State) -> tuple[int, int]:
    """T_cur and T_next: the time for this iteration, and for the next one if this one takes all of T_cur.

    T_next = min (s_i + TBT_i) - T_cur; the printed formula has TBT_i inside the minimum of s_i.
    """
    s = state.scalars[0]
    current = MAX_TICKS
    two = 2 * MAX_TICKS
    for i in range(s["decoding"]):
        request = state.requests[state.slots[DECODES, i]]
        slack = next_deadline(request, state.parameters[0]["deadline"]) - s["now"]
        current = min(current, slack)
        two = min(two, slack + request["tpot"])
    return current, two - current


@compiled
def slide(state: State, cost: Cost, within: int, following: int, most: int) -> int:
    """Prompt tokens of this iteration (Algorithm 1) for which it and the next one together take the least time.

    within, following: the most tokens in T_cur and T_next. Corrections of the paper: the choice is at most `within`,
    which is always a candidate, so two iterations never take longer than the greedy choice. A queue that fits is taken
    whole, and the sum is at most the queue: otherwise time saturates and the chunk falls to 0. The least choice is one
    token: the fixed cost of a prefill would make 0 look cheapest.
    """
    s = state.scalars[0]
    queue = state.slots[CUMULATIVE_TOKENS, s["ordered"] - 1] if s["ordered"] else 0
    if within == 0 or within >= queue:
        return within
    both = min(within + following, queue)
    lower = max(1, both - most)
    upper = within
    low = lower
    high = upper
    while high - low > TERNARY_WIDTH:
        third = (high - low) // 3
        left = low + third
        right = high - third
        if pair_time(state, cost, left, both) <= pair_time(state, cost, right, both):
            high = right - 1
        else:
            low = left + 1
    best = upper
    time = pair_time(state, cost, upper, both)
    for tokens in ((low + high) // 2, lower):  # from large to small: ties stay with the larger
        other = pair_time(state, cost, tokens, both)
        if other < time - ROUNDING:
            best = tokens
            time = other
    return int(best)


@compiled
def pair_time(state: State, cost: Cost, tokens: int, both: int) -> int:
    """Predicted ticks of two iterations, with `tokens` and with the rest of `both`."""
    return time_of(state, cost, tokens) + time_of(state, cost, both - tokens)


@compiled
def first_slack(request: Any, now: int) -> int:
    """Ticks until a queued request's next token is due: its first, or the next one after a preemption."""
    return int(min(next_deadline(request, SCHEDULE), request["last_deadline"]) - now)


@compiled
def construct(state: State, cost: Cost, most: int, within: int, current: int) -> int:
    """Batch constructor (Algorithm 2): bits of the places whose prefills this iteration completes; 0: no set helps.

    Each request at risk is an anchor; a 0/1 knapsack finds the most valuable set within its slack that holds the
    anchor, among the first CANDIDATES of the order. The knapsack keeps all non-dominated pairs of weight and value,
    so it is exact. Ties go to the earlier request.

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
    time = batch_ticks(state, cost, tokens, prefix, chunks)
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
