"""QoServe (ASPLOS 2026): priority by deadline and remaining work, a token budget from the slack, relegation.

Deadlines follow a schedule, which starts again at a late first token; the batch class has a deadline for its last token
alone. The published code counts each token's deadline one target later than the paper: option `variant`.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ...tables.lookup import MAX_TICKS, OUTSIDE
from ..compiled import compiled
from ..cost.cost_record import Cost
from ..serving_state import DECODES, QUEUE, State, batch_ticks, join_queue, leave_queue, next_deadline
from .order import allocate, ordered_tokens, put_in_order, time_of
from .policy_options import Deadline, Milliseconds, PerSecond, PolicyOptions, Tokens, Variant, Weight

# The published grid of token budgets: 128, 256 to 2048 in steps of 256, 2552.
SMALLEST, STEP, LARGEST, ENTRIES = 128, 256, 2552, 10
RELEGATED = 1 << 60  # added to the key: behind all others


class QoServeOptions(PolicyOptions):
    number = "token_budget"
    token_budget: Tokens = 2552
    deadline: Deadline = "schedule"
    variant: Variant = Field("paper", description="code: deadlines are one target later")
    alpha_ms: Milliseconds = Field(8.0, description="time for each remaining token in the priority")
    throughput_per_s: PerSecond = Field(8500.0, description="of prefill, before the first iteration")
    throughput_decay: Weight = Field(0.995, description="share of itself that the average keeps")


@compiled
def qoserve(state: State, cost: Cost) -> int:
    """Allocates the chunks of this iteration. OUTSIDE where the cost's domain lacks the decodes alone, else 0."""
    if batch_ticks(state, cost, 0, 0, 0) == OUTSIDE:
        return OUTSIDE
    relegate(state)
    most = state.parameters[0]["token_budget"]
    put_in_order(state, False, most, 1)
    allocate(state, min(ordered_tokens(state, most), chunk_within(state, cost, slack_of_decodes(state))))
    return 0


@compiled
def slack_of_decodes(state: State) -> int:
    """Ticks to the earliest deadline of a decode that has deadlines for its tokens."""
    s = state.scalars[0]
    p = state.parameters[0]
    slack = MAX_TICKS
    for i in range(s["decoding"]):
        request = state.requests[state.slots[DECODES, i]]
        if not request["batch_class"]:
            slack = min(slack, next_deadline(request, p["deadline"]) + p["variant"] * request["tpot"] - s["now"])
    return int(slack)


@compiled
def grid_entry(i: int) -> int:
    """Entry i of the published grid, 0 to ENTRIES - 1."""
    if i == 0:
        return SMALLEST
    return LARGEST if i == ENTRIES - 1 else STEP * i


@compiled
def chunk_within(state: State, cost: Cost, slack: int) -> int:
    """Prompt tokens of the largest total in the grid whose time times 1.2 is within `slack`, else of the smallest."""
    s = state.scalars[0]
    budget = state.parameters[0]["token_budget"]
    most = ordered_tokens(state, budget)
    low = 0
    high = ENTRIES - 1
    while grid_entry(high) > budget and high > 0:
        high -= 1
    while low < high:
        middle = (low + high + 1) >> 1
        tokens = max(0, min(most, grid_entry(middle) - s["decoding"]))
        if 6 * time_of(state, cost, tokens) <= 5 * slack:
            low = middle
        else:
            high = middle - 1
    return int(max(0, grid_entry(low) - s["decoding"]))


@compiled
def relegate(state: State) -> None:
    """Puts requests that have not begun behind all others, once, if they will be late at the recent throughput."""
    s = state.scalars[0]
    i = 0
    for _ in range(s["queued"]):
        slot = state.slots[QUEUE, i]
        request = state.requests[slot]
        if request["relegated"]:
            break
        late = s["now"] + work_left(request) / s["throughput"] > own_deadline(request)
        if late and not request["pages"] and not request["generated"]:
            request["relegated"] = 1
            s["relegations"] += 1
            leave_queue(state, slot)
            request["key"] = priority(state, request)
            join_queue(state, slot)
        else:
            i += 1


@compiled
def own_deadline(request: Any) -> int:
    """Of the first token, or of the last one in the batch class."""
    return int(request["last_deadline"] if request["batch_class"] else request["first_deadline"])


@compiled
def work_left(request: Any) -> int:
    """Tokens to its deadline: the rest of the prompt, and in the batch class the estimated output (0 if unknown)."""
    rest = request["target"] - request["computed"]
    if request["batch_class"] and request["output_estimate"] > 0:
        rest += request["output_estimate"]
    return int(rest)


@compiled
def priority(state: State, request: Any) -> int:
    """Key of the queue, lowest first: deadline + alpha times the work left, relegated ones last."""
    key = own_deadline(request) + state.parameters[0]["alpha"] * work_left(request)
    return int(key + RELEGATED if request["relegated"] else key)
