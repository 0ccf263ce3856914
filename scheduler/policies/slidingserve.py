"""SlidingServe (arXiv 2606.05933): sorter, sliding chunker and batch constructor, each of them optional.

Corrections of the printed algorithms are documented at the functions. Without all three parts the policy is
`sarathi-edf` of the same budget.
"""

from __future__ import annotations

from pydantic import Field

from ...tables.lookup import MAX_TICKS, OUTSIDE
from ..compiled import compiled
from ..cost.look_up import bound_ticks
from ..cost.record import Cost
from ..serving_state import CUMULATIVE_TOKENS, DECODES, ORDER, QUEUE, State, give, mean_context, next_deadline
from .batch_constructor import CANDIDATES, construct, first_slack
from .order import PLACE_BITS, allocate, ordered_tokens, put_in_order, time_of, tokens_within
from .policy_options import Deadline, Flag, Late, PolicyOptions, Tokens, Weight

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
    s = state.scalars[0]
    p = state.parameters[0]
    n = s["decoding"]
    if bound_ticks(cost, n, mean_context(state), s["longest_context"], 0, 0, 0) == OUTSIDE:
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
