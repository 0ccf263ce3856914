"""The effects of one iteration: pages for the next tokens, preemption, computed chunks, tokens, finished requests.

The 99th percentile of a request's m gaps is their nearest rank, number m // 100 + 1 from the top: the smallest gap
that at least 99% do not exceed. Each request keeps its m // 100 + 1 largest gaps in a heap.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..tables.lookup import TICKS_PER_MS
from .compiled import compiled
from .dtypes import Status
from .policies.order import sink
from .policies.registry import place
from .serving_state import (
    CHOSEN,
    DECODES,
    LEAVE_OUT,
    NEVER,
    QUEUE,
    State,
    free_slot,
    join_queue,
    leave_queue,
    release,
    take_out,
)

FINISHED = int(Status.FINISHED)


class World(NamedTuple):
    """The part of a run that the scheduler does not see. heaps: the largest gaps of request i, from starts[i] to
    starts[i + 1]."""

    workload: NDArray[Any]
    results: NDArray[Any]
    heaps: NDArray[np.int64]
    starts: NDArray[np.int64]
    factors: NDArray[np.int64]
    arrived: NDArray[np.int64]  # (1,): requests that have
    scheduling: int  # ticks
    until: int


@compiled
def survey(state: State) -> None:
    """Sums up the decodes for the next iteration, and takes pages for their next tokens while there are free ones."""
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

    A single request always has its pages, since a request longer than the capacity is refused.
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
    """A decode loses its pages and waits again. Its tokens so far are computed again with its prompt."""
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
    """The chosen chunks are in the KV cache. Complete prefills leave the queue, others move to their new place."""
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
    """Frees pages and slot of a finished request."""
    release(state, slot)
    free_slot(state, slot)


@compiled
def give_tokens(world: World, state: State) -> None:
    """One token for every decode and every prefill that is now complete. Requests with all tokens leave."""
    s = state.scalars[0]
    requests = state.requests
    decodes = state.slots[DECODES]
    output_tokens = world.workload["output_tokens"]
    compute_chunks(state)
    now = s["now"]
    kept = 0
    for i in range(s["decoding"]):
        slot = decodes[i]
        request = requests[slot]
        request["computed"] += 1
        gap = now - request["last_token"]
        if gap > request["kept_gap"]:
            row = request["row"]
            request["kept_gap"] = keep_gap(world.heaps[world.starts[row] : world.starts[row + 1]], gap)
        count_token(request, now)
        if request["generated"] == output_tokens[request["row"]]:
            leave(world, state, slot)
        else:
            decodes[kept] = slot
            kept += 1
    s["decoding"] = kept
    late = state.parameters[0]["late"]
    for i in range(s["chosen"]):
        slot = state.slots[CHOSEN, i]
        request = requests[slot]
        if request["computed"] == request["target"]:
            row = request["row"]
            if request["generated"]:  # before it was preempted
                heap = world.heaps[world.starts[row] : world.starts[row + 1]]
                request["kept_gap"] = keep_gap(heap, now - request["last_token"])
            else:
                world.results[row]["first_token_ms"] = now / TICKS_PER_MS
                if now > request["schedule"]:
                    request["schedule"] = NEVER if late == LEAVE_OUT else now
            count_token(request, now)
            if request["generated"] == output_tokens[row]:
                leave(world, state, slot)
            else:
                decodes[s["decoding"]] = slot
                s["decoding"] += 1
    survey(state)


@compiled
def count_token(request: Any, now: int) -> None:
    """Counts the token of this iteration, and whether it misses the request's original schedule."""
    if now > request["first_deadline"] + request["generated"] * request["tpot"]:
        request["schedule_misses"] += 1
    request["last_token"] = now
    request["generated"] += 1


@compiled
def leave(world: World, state: State, slot: int) -> None:
    """Finishes a request that has all of its tokens."""
    result = world.results[state.requests[slot]["row"]]
    result["status"] = FINISHED
    result["finish_ms"] = state.scalars[0]["now"] / TICKS_PER_MS
    sum_up(world, state, slot)
    retire(state, slot)


@compiled
def sum_up(world: World, state: State, slot: int) -> None:
    """Writes tokens and gaps of a request to its result."""
    request = state.requests[slot]
    row = request["row"]
    result = world.results[row]
    result["tokens"] = request["generated"]
    result["schedule_misses"] = request["schedule_misses"]
    result["preemptions"] = request["preemptions"]
    gaps = request["generated"] - 1
    if gaps > 0:
        heap = world.heaps[world.starts[row] : world.starts[row + 1]]
        result["mean_gap_ms"] = (request["last_token"] / TICKS_PER_MS - result["first_token_ms"]) / gaps
        result["p99_gap_ms"] = p99_gap(heap, gaps) / TICKS_PER_MS
        result["largest_gap_ms"] = heap[len(heap) - 1] / TICKS_PER_MS


@compiled
def sum_up_unfinished(world: World, state: State) -> None:
    """`sum_up` of the requests that are still in flight."""
    s = state.scalars[0]
    for i in range(s["queued"]):
        sum_up(world, state, state.slots[QUEUE, i])
    for i in range(s["decoding"]):
        sum_up(world, state, state.slots[DECODES, i])


def heap_starts(output_tokens: NDArray[np.int32]) -> NDArray[np.int64]:
    """Where each request's heap begins in one array, and where the last ends: shape (requests + 1,)."""
    starts = np.zeros(len(output_tokens) + 1, np.int64)
    np.cumsum(np.maximum(output_tokens.astype(np.int64) - 1, 0) // 100 + 1, out=starts[1:])
    return starts


@compiled
def keep_gap(heap: NDArray[np.int64], gap: int) -> int:
    """Puts a gap among the largest in place of the smallest of them. Returns the smallest that is kept."""
    if gap <= heap[0]:
        return int(heap[0])
    sink(heap, len(heap), 0, gap)
    return int(heap[0])


@compiled
def p99_gap(heap: NDArray[np.int64], gaps: int) -> int:
    """The 99th percentile of `gaps` gaps, 1 or more. Sorts the heap."""
    heap.sort()
    return int(heap[len(heap) - (gaps // 100 + 1)])
