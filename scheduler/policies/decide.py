"""One door to every policy, so that one compiled loop serves them all."""

from __future__ import annotations

from ..compiled import compiled
from ..cost.record import Cost
from ..state import State
from .sloweave import admits, sloweave
from .static import fixed, sarathi_edf, token_budget

FULL, FIXED, TOKEN_BUDGET, SARATHI_EDF, SLOWEAVE = range(5)


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
    if state.parameters[0]["family"] == SARATHI_EDF:
        request["key"] = min(request["first_deadline"], request["last_deadline"])
    else:
        request["key"] = request["arrival"]


@compiled
def accepts(state: State, cost: Cost, slot: int) -> bool:
    """Whether the policy takes a request that has just arrived."""
    return not state.parameters[0]["admission"] or admits(state, cost, slot)
