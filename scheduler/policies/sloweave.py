"""SLOWeave: the largest prefill chunk that ends before the earliest deadline of a decode (its section 3.2).

The paper's extensions are options: targets per request, a margin per priority, several prefills by first fit, aging
with counted exceptions, admission control.
"""

from __future__ import annotations

from pydantic import Field

from ...tables.lookup import MAX_TICKS, OUTSIDE, WEIGHT_ONE
from ..compiled import compiled
from ..cost.cost_record import Cost
from ..cost.look_up import bound_ticks, largest_chunk
from ..serving_state import DECODES, QUEUE, State, give, mean_context, next_deadline, room
from .policy_options import PRIORITIES, Deadline, Flag, Margins, Milliseconds, PolicyOptions, Tokens

EXCEPTION_PERIOD = 8  # iterations from one exception to the next, at least


class SLOWeaveOptions(PolicyOptions):
    deadline: Deadline = "per_token"
    chunk_tokens: Tokens = Field(4096, description="prompt tokens of an iteration at most")
    prefills: Tokens = Field(8, description="chunks of an iteration at most")
    align: Tokens = Field(1, description="chunks are multiples of it")
    margin: Margins = Field((0.0,) * PRIORITIES, description="of the bound, by priority")
    aging_ms: Milliseconds = Field(0.0, description="wait after which the budget may be exceeded; 0: never")
    admission: Flag = False


@compiled
def time_budget(state: State) -> int:
    """B in ticks: time to the earliest deadline of a decode, never below 0.

    With a margin m of its priority a decode needs U (1 + m) <= slack, so U <= slack / (1 + m).
    """
    s = state.scalars[0]
    margin = state.parameters[0]["margin"]
    requests = state.requests
    decodes = state.slots[DECODES]
    model = state.parameters[0]["deadline"]
    budget = MAX_TICKS
    for i in range(s["decoding"]):
        request = requests[decodes[i]]
        level = min(request["priority"], PRIORITIES - 1)
        slack = next_deadline(request, model) - s["now"]
        budget = min(budget, slack * WEIGHT_ONE // margin[level])
    return max(0, budget)


@compiled
def sloweave(state: State, cost: Cost) -> int:
    """Allocates the chunks of this iteration. OUTSIDE where the cost's domain lacks the decodes alone, else 0."""
    s = state.scalars[0]
    p = state.parameters[0]
    n = s["decoding"]
    k = mean_context(state)
    longest = s["longest_context"]
    budget = time_budget(state)
    holders = s["running"] - n  # of pages, still to come in the queue
    blocked = False
    for i in range(s["queued"]):
        if s["chosen"] >= p["prefills"] or (blocked and not holders):
            break
        slot = state.slots[QUEUE, i]
        request = state.requests[slot]
        if request["pages"]:
            holders -= 1
        elif blocked:
            continue
        most = min(room(state, slot), p["chunk_tokens"] - s["chunk_tokens"])
        if most <= 0:
            blocked = True  # only requests that hold pages overtake
            continue
        given = s["chunk_tokens"]
        prefix = s["prefix_tokens"] + request["computed"]
        total = largest_chunk(cost, n, k, longest, prefix, budget, given + most, p["align"], s["chosen"] + 1)
        if total == OUTSIDE and not s["chosen"]:
            return OUTSIDE
        if i == 0 and may_exceed(state, slot):
            aged = largest_chunk(cost, n, k, longest, prefix, budget * 3 // 2, most, p["align"], 1)
            if aged > total:
                s["exceptions"] += 1
                s["last_exception"] = s["iteration"]
                give(state, slot, aged)
                break
        if total <= given:
            break
        give(state, slot, total - given)
        if total < given + most:
            break
    return 0


@compiled
def may_exceed(state: State, slot: int) -> bool:
    """Whether a prefill has waited so long that it may exceed the budget, by 1.5 times at most."""
    s = state.scalars[0]
    aging = state.parameters[0]["aging"]
    return bool(
        aging
        and s["decoding"]
        and s["now"] - state.requests[slot]["arrival"] > aging
        and s["iteration"] - s["last_exception"] >= EXCEPTION_PERIOD
    )


@compiled
def admits(state: State, cost: Cost, slot: int) -> bool:
    """Whether one more decode fits: U(n + 1, k', 0, 0) is at most 0.95 of the tightest target."""
    s = state.scalars[0]
    request = state.requests[slot]
    n = s["decoding"] + 1
    context = request["target"] + 1
    tightest = request["tpot"]
    for i in range(s["decoding"]):
        tightest = min(tightest, state.requests[state.slots[DECODES, i]]["tpot"])
    k = (s["decode_kv_tokens"] + context + n - 1) // n
    ticks = bound_ticks(cost, n, k, int(max(s["longest_context"], context)), 0, 0, 0)
    return bool(ticks != OUTSIDE and ticks <= tightest * 19 // 20)
