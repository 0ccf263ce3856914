"""Static policies, which need no cost table: fixed chunks and token budgets.

`full` and `fixed` take the whole remainder of the oldest prefill, or at most C tokens of it, beside all decodes (the
baselines of SLOWeave 4.3). `token-budget` takes the decodes, then begun prefills, then waiting ones in order of
arrival, until n + c reaches the budget (Sarathi-Serve, vLLM). `sarathi-edf` does the same in order of arrival + TTFT
target.
"""

from __future__ import annotations

from ..compiled import compiled
from ..serving_state import QUEUE, State, give, room
from .policy_options import PolicyOptions, Tokens


class FullOptions(PolicyOptions):
    prefills: Tokens = 1


class FixedOptions(PolicyOptions):
    number = "chunk_tokens"
    chunk_tokens: Tokens = 256
    prefills: Tokens = 1


class TokenBudgetOptions(PolicyOptions):
    number = "token_budget"
    token_budget: Tokens = 512


class SarathiOptions(PolicyOptions):
    number = "token_budget"
    token_budget: Tokens = 256


@compiled
def fixed(state: State) -> None:
    """At most `chunk_tokens` in `prefills` chunks, in queue order; `full` is this without a limit of tokens."""
    p = state.parameters[0]
    fill(state, p["chunk_tokens"], p["prefills"])


@compiled
def token_budget(state: State) -> None:
    """The budget less the decodes, to begun prefills first."""
    s = state.scalars[0]
    left = state.parameters[0]["token_budget"] - s["decoding"]
    for i in range(s["queued"]):
        slot = state.slots[QUEUE, i]
        if s["running"] == s["decoding"] or s["chunk_tokens"] >= left:
            break
        if state.requests[slot]["pages"]:
            tokens = min(left - s["chunk_tokens"], room(state, slot))
            if tokens > 0:
                give(state, slot, tokens)
    fill(state, left, s["queued"])


@compiled
def sarathi_edf(state: State) -> None:
    """The budget less the decodes, in queue order, which is by deadline."""
    s = state.scalars[0]
    fill(state, state.parameters[0]["token_budget"] - s["decoding"], s["queued"])


@compiled
def fill(state: State, tokens: int, prefills: int) -> None:
    """Up to `tokens` prompt tokens in up to `prefills` chunks, in queue order.

    Only requests that hold pages overtake a request without room, since they can always continue.
    """
    s = state.scalars[0]
    holders = s["running"] - s["decoding"]  # of pages, still to come in the queue
    blocked = False
    for i in range(s["queued"]):
        if s["chunk_tokens"] >= tokens or s["chosen"] >= prefills or (blocked and not holders):
            break
        slot = state.slots[QUEUE, i]
        request = state.requests[slot]
        if request["pages"]:
            holders -= 1
        if request["chunk"] or (blocked and not request["pages"]):
            continue
        chunk = min(tokens - s["chunk_tokens"], room(state, slot))
        if chunk > 0:
            give(state, slot, chunk)
        else:
            blocked = True
