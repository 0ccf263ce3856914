"""One door to every policy, so that one compiled loop serves them all."""

from __future__ import annotations

from ..compiled import compiled
from ..cost.record import Cost
from ..serving_state import State
from .qoserve import priority, qoserve
from .slidingserve import slidingserve
from .sloweave import admits, sloweave
from .static import fixed, sarathi_edf, token_budget

FULL, FIXED, TOKEN_BUDGET, SARATHI_EDF, SLOWEAVE, SLIDINGSERVE, QOSERVE = range(7)


@compiled
def decide(state: State, cost: Cost) -> int:
    """Gives prompt tokens to queued requests (`chunk`, `slots[CHOSEN]`); every decode gets its token anyway.

    cost: the policy's belief. 0, or OUTSIDE where it does not hold the decodes alone.
    """
    s = state.scalars[0]
    s["chosen"] = 0
    s["chunk_tokens"] = 0
    s["prefix_tokens"] = 0
    if not s["queued"]:
        return 0
    family = state.parameters[0]["family"]
    if family == SLOWEAVE:
        return sloweave(state, cost)
    if family == SLIDINGSERVE:
        return slidingserve(state, cost)
    if family == QOSERVE:
        return qoserve(state, cost)
    if family == TOKEN_BUDGET:
        token_budget(state)
    elif family == SARATHI_EDF:
        sarathi_edf(state)
    else:
        fixed(state)
    return 0


@compiled
def place(state: State, slot: int) -> None:
    """Sets the request's key in the prefill queue."""
    request = state.requests[slot]
    family = state.parameters[0]["family"]
    if family in (SARATHI_EDF, SLIDINGSERVE):
        request["key"] = min(request["first_deadline"], request["last_deadline"])
    elif family == QOSERVE:
        request["key"] = priority(state, request)
    else:
        request["key"] = request["arrival"]


@compiled
def accepts(state: State, cost: Cost, slot: int) -> bool:
    """Whether the policy takes a request that has just arrived."""
    return not state.parameters[0]["admission"] or admits(state, cost, slot)


@compiled
def observe(state: State, ticks: int) -> None:
    """What a policy learns of the iteration that it decided: the throughput of prefill, tokens per tick."""
    s = state.scalars[0]
    decay = state.parameters[0]["throughput_decay"]
    if not decay or not s["chunk_tokens"]:
        return
    now = s["chunk_tokens"] / ticks
    s["throughput"] = decay * s["throughput"] + (1.0 - decay) * now if s["throughput"] else now
