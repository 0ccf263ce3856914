"""What an iteration does to the state: pages for the next tokens, preemption, chunks computed, tokens given."""

from __future__ import annotations

from .compiled import compiled
from .policies.decide import place
from .state import CHOSEN, DECODES, State, free_slot, join_queue, leave_queue, release, take_out


@compiled
def survey(state: State) -> None:
    """The decodes' totals for the next iteration, and pages for their next tokens while there are any."""
    s = state.scalars[0]
    requests = state.requests
    decodes = state.slots[DECODES]
    size = s["page_tokens"]
    kv_tokens = 0
    longest = 0
    short = 0
    for i in range(s["decoding"]):
        request = requests[decodes[i]]
        context = request["computed"] + 1
        kv_tokens += context
        longest = max(longest, context)
        if context > request["pages"] * size:
            if s["pages_used"] < s["pages"]:
                request["pages"] += 1
                s["pages_used"] += 1
            else:
                short += 1
    s["decode_kv_tokens"] = kv_tokens
    s["longest_context"] = longest
    s["pages_short"] = short


@compiled
def make_pages(state: State) -> None:
    """Preempts the latest arrived decode until every other one has a page for its next token.

    A single request always has its pages, since none that is longer than the capacity is taken.
    """
    s = state.scalars[0]
    while s["pages_short"]:
        preempt(state, latest(state))
        survey(state)


@compiled
def latest(state: State) -> int:
    """The decode that arrived last."""
    worst = state.slots[DECODES, 0]
    for i in range(1, state.scalars[0]["decoding"]):
        slot = state.slots[DECODES, i]
        if state.requests[slot]["row"] > state.requests[worst]["row"]:
            worst = slot
    return int(worst)


@compiled
def preempt(state: State, slot: int) -> None:
    """A decode loses its pages and waits again; its tokens so far are computed again with its prompt."""
    request = state.requests[slot]
    leave_decodes(state, slot)
    release(state, slot)
    request["preemptions"] += 1
    request["target"] = request["computed"] + 1
    request["computed"] = 0
    join_queue(state, slot)


@compiled
def leave_decodes(state: State, slot: int) -> None:
    """Takes a request out of the decodes."""
    s = state.scalars[0]
    take_out(state, DECODES, s["decoding"], slot)
    s["decoding"] -= 1


@compiled
def compute_chunks(state: State) -> None:
    """The chosen chunks are in the KV cache; prefills that are whole leave the queue, others find their new place."""
    s = state.scalars[0]
    for i in range(s["chosen"]):
        slot = state.slots[CHOSEN, i]
        request = state.requests[slot]
        request["computed"] += request["chunk"]
        request["chunk"] = 0
        if request["computed"] == request["target"]:
            leave_queue(state, slot)
            continue
        key = request["key"]
        place(state, slot)
        if request["key"] != key:
            leave_queue(state, slot)
            join_queue(state, slot)


@compiled
def retire(state: State, slot: int) -> None:
    """A request that is done gives back pages and slot."""
    release(state, slot)
    free_slot(state, slot)
