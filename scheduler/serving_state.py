"""The state of a scheduler: requests in flight, the prefill queue, the decodes, time and KV pages.

A request in flight has a slot: a row of `requests`. Rows of `slots` hold slots in order: the prefill queue (waiting and
partly prefilled requests, by key), the decodes (by start of decoding), the requests with a chunk in this iteration, and
the free slots. Times are ticks of 2^-14 ms, so a deadline is met or missed without a tolerance. The state does not hold
output lengths, only the estimate that came with each request.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..files.errors import UsageError
from ..tables.lookup import MEASURED, OUTSIDE, boxes_above
from .compiled import compiled
from .cost.cost_record import NO_LIMIT, Cost, head_of
from .cost.look_up import bound_ticks
from .dtypes import REQUEST, SCALARS

NEVER = 1 << 50  # a time that no run reaches, in ticks
NO_TARGET = 1 << 40  # ticks between tokens where the request has no such target
QUEUE, DECODES, CHOSEN, FREE, ORDER, CUMULATIVE_TOKENS, CUMULATIVE_PREFIXES = range(7)
PER_TOKEN, SCHEDULE = range(2)  # deadline models
REBASE, LEAVE_OUT = range(2)  # what becomes of the schedule of a request whose first token is late


class State(NamedTuple):
    """requests: REQUEST (slots,). scalars: SCALARS (1,). parameters: policies.PARAMETERS (1,). keys: int64 (slots,), to
    sort by. slots: int32 (7, slots), slots in order in the rows QUEUE to ORDER, and beside ORDER the cumulative sums
    of `policies/order.py`.
    """

    requests: NDArray[Any]
    slots: NDArray[np.int32]
    keys: NDArray[np.int64]
    scalars: NDArray[Any]
    parameters: NDArray[Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """The engine's limits: what it holds and runs at once, for every policy."""

    max_running: int  # requests that hold KV pages: decodes and begun prefills
    pages: int
    page_tokens: int = 16
    max_chunk_tokens: int = NO_LIMIT  # of an iteration
    max_batch_tokens: int = NO_LIMIT  # n + c
    max_prefix_tokens: int = NO_LIMIT  # sum of the chunks' prefixes
    max_request_tokens: int = NO_LIMIT  # prompt and output of one request; a longer one is refused

    def __post_init__(self) -> None:
        for field in fields(self):
            least = 0 if field.name == "max_prefix_tokens" else 1
            if getattr(self, field.name) < least:
                raise UsageError(f"Limits: {field.name} is {getattr(self, field.name)}; expected at least {least}")

    @classmethod
    def within(cls, cost: Cost, max_running: int, kv_tokens: int | None = None) -> Limits:
        """The widest limits within the cost's domain. kv_tokens: a smaller KV capacity.

        The mean context is rounded up, so a batch may count one more token for each decode than it holds. A request may
        decode alone, and its last prompt token may be a chunk after all others. Where no prefix was measured a prompt
        is one chunk.
        """
        head = head_of(cost)
        longest = head.max_prefix_tokens + 1 if head.max_prefix_tokens else head.max_chunk_tokens
        kv_tokens = min(kv_tokens or NO_LIMIT, head.kv_tokens - max_running)
        return cls(
            min(max_running, head.max_decodes),
            kv_tokens // 16,
            16,
            head.max_chunk_tokens,
            head.max_batch_tokens,
            head.max_prefix_tokens,
            min(head.context_length, head.max_context_tokens, longest),
        )


def empty_state(capacity: int, parameters: NDArray[Any], limits: Limits) -> State:
    """The state at time 0. capacity: most requests in flight; untouched memory costs nothing."""
    scalars = np.zeros(1, SCALARS)
    for field in fields(limits):
        scalars[field.name] = getattr(limits, field.name)
    scalars["last_exception"] = -NEVER
    scalars["throughput"] = parameters["throughput"]
    return State(
        np.zeros(capacity, REQUEST),
        np.zeros((CUMULATIVE_PREFIXES + 1, capacity), np.int32),
        np.zeros(capacity, np.int64),
        scalars,
        parameters,
    )


@compiled
def new_slot(state: State) -> int:
    """A free slot, used ones first. Its record is that of the last request."""
    s = state.scalars[0]
    if s["freed"]:
        s["freed"] -= 1
        return int(state.slots[FREE, s["freed"]])
    s["fresh"] += 1
    return int(s["fresh"] - 1)


@compiled
def join_queue(state: State, slot: int) -> None:
    """Puts a request into the prefill queue by (key, row)."""
    s = state.scalars[0]
    requests = state.requests
    key = requests[slot]["key"]
    row = requests[slot]["row"]
    low = 0
    high = s["queued"]
    # Most join at the end.
    if high:
        last = requests[state.slots[QUEUE, high - 1]]
        if last["key"] < key or (last["key"] == key and last["row"] < row):
            low = high
    while low < high:
        middle = (low + high) >> 1
        other = requests[state.slots[QUEUE, middle]]
        if other["key"] < key or (other["key"] == key and other["row"] < row):
            low = middle + 1
        else:
            high = middle
    for i in range(s["queued"], low, -1):
        state.slots[QUEUE, i] = state.slots[QUEUE, i - 1]
    state.slots[QUEUE, low] = slot
    s["queued"] += 1


@compiled
def leave_queue(state: State, slot: int) -> None:
    """Takes a request out of the prefill queue."""
    s = state.scalars[0]
    take_out(state, QUEUE, s["queued"], slot)
    s["queued"] -= 1


@compiled
def take_out(state: State, row: int, count: int, slot: int) -> None:
    """Removes a slot from the first `count` of a row; the slots behind it move up."""
    at = 0
    while state.slots[row, at] != slot:
        at += 1
    for i in range(at, count - 1):
        state.slots[row, i] = state.slots[row, i + 1]


@compiled
def pages_for(state: State, tokens: int) -> int:
    size = state.scalars[0]["page_tokens"]
    return int((tokens + size - 1) // size)


@compiled
def release(state: State, slot: int) -> None:
    """Frees the pages of a request."""
    s = state.scalars[0]
    s["pages_used"] -= state.requests[slot]["pages"]
    s["running"] -= 1
    state.requests[slot]["pages"] = 0


@compiled
def free_slot(state: State, slot: int) -> None:
    s = state.scalars[0]
    state.slots[FREE, s["freed"]] = slot
    s["freed"] += 1


@compiled
def room(state: State, slot: int) -> int:
    """Prompt tokens that a queued request may get in this iteration, whatever their cost; 0 if it cannot begin.

    A request takes the pages of its prompt at its first chunk (Sarathi-Serve), so a begun prefill can always end.
    """
    s = state.scalars[0]
    request = state.requests[slot]
    if not request["pages"] and (
        s["running"] >= s["max_running"] or s["pages_used"] + pages_for(state, request["target"] + 1) > s["pages"]
    ):
        return 0
    if s["prefix_tokens"] + request["computed"] > s["max_prefix_tokens"]:
        return 0
    limit = min(s["max_chunk_tokens"], s["max_batch_tokens"] - s["decoding"]) - s["chunk_tokens"]
    return int(max(0, min(limit, request["target"] - request["computed"])))


@compiled
def give(state: State, slot: int, tokens: int) -> None:
    """Gives a queued request `tokens` prompt tokens in this iteration, at most its `room`.

    Fewer where a part of the prompt would be left after a longer prefix than the engine's costs hold; none at all where
    only the whole rest can be computed.
    """
    s = state.scalars[0]
    request = state.requests[slot]
    if request["computed"] + tokens < request["target"]:
        tokens = min(tokens, s["max_prefix_tokens"] - request["computed"])
        if tokens <= 0:
            return
    if not request["pages"]:
        request["pages"] = pages_for(state, request["target"] + 1)
        s["pages_used"] += request["pages"]
        s["running"] += 1
    request["chunk"] = tokens
    state.slots[CHOSEN, s["chosen"]] = slot
    s["chosen"] += 1
    s["chunk_tokens"] += tokens
    s["prefix_tokens"] += request["computed"]


@compiled
def remaining(state: State, slot: int) -> int:
    """Prompt tokens that a queued request still has to compute."""
    return int(state.requests[slot]["target"] - state.requests[slot]["computed"])


@compiled
def mean_context(state: State) -> int:
    """Mean context of the decodes in the next iteration, rounded up; 0 without any."""
    s = state.scalars[0]
    n = s["decoding"]
    return int((s["decode_kv_tokens"] + n - 1) // n) if n else 0


@compiled
def batch_ticks(state: State, cost: Cost, tokens: int, prefix: int, chunks: int) -> int:
    """Predicted ticks of all decodes with `chunks` chunks of these total tokens and prefixes; OUTSIDE the domain."""
    s = state.scalars[0]
    # Fields and slots are narrower than the products of a look-up.
    tokens, prefix, longest = int(tokens), int(prefix), int(s["longest_context"])
    return int(bound_ticks(cost, s["decoding"], mean_context(state), longest, tokens, prefix, chunks))


@compiled
def count_support(state: State, cost: Cost) -> None:
    """Counts the batch that was decided where the cost's table did not measure it."""
    support = cost.head[0].support
    if not cost.head[0].knots_end or support == OUTSIDE:
        return
    s = state.scalars[0]
    n, k, c, u = int(s["decoding"]), mean_context(state), int(s["chunk_tokens"]), int(s["prefix_tokens"])
    if (n or c) and boxes_above(cost.nodes, support, n, k, c, u) != MEASURED:
        if batch_ticks(state, cost, c, u, s["chosen"]) == OUTSIDE:
            s["unmeasured"] += 1
        else:
            s["by_order"] += 1


@compiled
def next_deadline(request: Any, model: int) -> int:
    """When a decode's next token is due in a deadline model.

    `per_token`: the target after its newest token. `schedule`: token j (from 1) at the first one's deadline plus
    (j - 1) targets.
    """
    if model == PER_TOKEN:
        return int(request["last_token"] + request["tpot"])
    return int(request["schedule"] + request["generated"] * request["tpot"])
