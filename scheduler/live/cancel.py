"""Requests that are given up by whoever asked for them."""

from __future__ import annotations

from ..compiled import compiled
from ..dtypes import Status
from ..iteration import World, leave_decodes, sum_up, survey
from ..serving_state import DECODES, QUEUE, State, free_slot, leave_queue, release

CANCELLED = int(Status.CANCELLED)
NOT_IN_FLIGHT = -1


@compiled
def cancel(world: World, state: State, row: int) -> int:
    """Between two iterations: the request of `row` leaves with the tokens it has. Returns the slot that it had."""
    s = state.scalars[0]
    slot = NOT_IN_FLIGHT
    for i in range(s["queued"]):
        if state.requests[state.slots[QUEUE, i]]["row"] == row:
            slot = state.slots[QUEUE, i]
    queued = slot != NOT_IN_FLIGHT
    for i in range(s["decoding"]):
        if state.requests[state.slots[DECODES, i]]["row"] == row:
            slot = state.slots[DECODES, i]
    if slot == NOT_IN_FLIGHT:
        return NOT_IN_FLIGHT
    world.results[row]["status"] = CANCELLED
    sum_up(world, state, slot)
    if queued:
        leave_queue(state, slot)
    else:
        leave_decodes(state, slot)
    if state.requests[slot]["pages"]:
        release(state, slot)
    free_slot(state, slot)
    survey(state)
    return int(slot)
