"""Small workloads and the invariants that every run of the simulator keeps."""

import numpy as np

from chunkfit.scheduler.cost import Formula
from chunkfit.scheduler.dtypes import WORKLOAD, Status
from chunkfit.scheduler.iteration import survey
from chunkfit.scheduler.policies.registry import place
from chunkfit.scheduler.serving_state import (
    CHOSEN,
    DECODES,
    NEVER,
    Limits,
    empty_state,
    join_queue,
    new_slot,
    pages_for,
)

# Steep enough that some hundred tokens already miss a target of 10 ms.
STEEP = Formula(overhead=0.4, floor=2.0, batch_token=0.02, decode=0.1, decode_context=1e-4, chunks=0.5, chunk_pair=1e-4)


def workload(rows, **given):
    """Requests that all arrive at 0 with 100 + 10 tokens and targets of 500 and 25 ms, but for what is given."""
    requests = np.zeros(rows, WORKLOAD)
    requests["output_estimate"] = -1
    requests["ttlt_ms"] = np.nan
    fields = {"prompt_tokens": 100, "output_tokens": 10, "ttft_ms": 500.0, "tpot_ms": 25.0}
    for name, value in (fields | given).items():
        requests[name] = value
    return requests


def random_workload(rng, rows):
    """Bursts, ties, one-token prompts and outputs, cached prefixes, targets that cannot be met or are not there."""
    prompt = np.maximum(1, rng.lognormal(4, 1, rows).astype(int))
    batch_class = rng.random(rows) < 0.2
    return workload(
        rows,
        arrival_ms=np.sort(np.round(rng.uniform(0, rng.choice([1.0, 100.0, 3000.0]), rows), 1)),
        prompt_tokens=prompt,
        cached_tokens=(prompt - 1) * (rng.random(rows) < 0.3) // 2,
        output_tokens=np.maximum(1, rng.lognormal(2, 1, rows).astype(int)),
        output_estimate=np.where(rng.random(rows) < 0.5, -1, 20),
        ttft_ms=np.where(batch_class, np.nan, rng.choice([1.0, 50.0, 1000.0], rows)),
        tpot_ms=np.where(batch_class, np.nan, rng.choice([0.1, 5.0, 25.0], rows)),
        ttlt_ms=np.where(batch_class, rng.choice([100.0, 10_000.0], rows), np.nan),
        batch_class=batch_class,
        application=rng.integers(0, 3, rows),
        priority=rng.integers(0, 6, rows),
        guard=rng.integers(0, 2, rows),
    )


def random_limits(rng, requests):
    """Tight enough for preemptions and, now and then, for refusals."""
    longest = int((requests["prompt_tokens"] + requests["output_tokens"]).max())
    page_tokens = int(rng.choice([1, 16]))
    return Limits(
        max_running=int(rng.integers(1, 12)),
        pages=max(1, int(longest * rng.uniform(0.6, 4)) // page_tokens),
        page_tokens=page_tokens,
        max_chunk_tokens=int(rng.choice([64, 4096])),
    )


def check_run(requests, limits, run):
    """Tokens conserved, KV within capacity, time forward, every request ended as what it is."""
    results, log = run.results, run.log
    finished = results["status"] == Status.FINISHED
    refused = results["status"] == Status.REFUSED
    assert (finished | refused).all()  # runs without a horizon leave nobody
    assert (results["tokens"][finished] == requests["output_tokens"][finished]).all()
    assert (results["tokens"][refused] == 0).all()
    assert np.isnan(results["first_token_ms"][refused]).all()
    assert (results["first_token_ms"][finished] > requests["arrival_ms"][finished]).all()
    assert (results["finish_ms"][finished] >= results["first_token_ms"][finished]).all()
    assert (results["p99_gap_ms"][finished] <= results["largest_gap_ms"][finished])[
        results["tokens"][finished] > 1
    ].all()
    # Time never runs backwards, iterations do not overlap.
    assert (log["latency_ms"] > 0).all()
    ends = log["start_ms"] + log["latency_ms"]
    assert (log["start_ms"][1:] >= ends[:-1]).all()
    assert len(log) == run.iterations
    # KV and engine limits.
    assert (log["pages_used"] <= limits.pages).all()
    assert (log["decodes"] + log["chunks"] <= limits.max_running).all()
    assert (log["decodes"] * (log["context_tokens"] - 1) <= limits.pages * limits.page_tokens).all()
    assert (log["chunk_tokens"] <= limits.max_chunk_tokens).all()
    # Each prompt is computed once but for its cached prefix, and again with its output after a preemption;
    # each token beyond a prefill's own is a decode.
    prefill = (requests["prompt_tokens"] - requests["cached_tokens"])[finished].sum()
    again = results["preemptions"][finished]
    most = ((requests["prompt_tokens"] + requests["output_tokens"])[finished] * again).sum()
    assert prefill <= log["chunk_tokens"].sum() <= prefill + most
    assert log["decodes"].sum() == (results["tokens"][finished] - 1 - again).sum()


TICK = 1 << 14


def state_of(chosen, decodes=(), queue=(), now_ms=0.0, limits=None):
    """A state in the middle of a run.

    decodes, queue: dicts of REQUEST fields, times in ms as `arrival_ms` and so on; what is not given is harmless.
    A queued request holds pages where `computed` is given.
    """
    requests = [*decodes, *queue]
    state = empty_state(max(1, len(requests)), chosen.parameters(), limits or Limits(64, 1 << 20))
    scalars = state.scalars[0]
    scalars["now"] = round(now_ms * TICK)
    for row, given in enumerate(requests):
        slot = new_slot(state)
        request = state.requests[slot]
        arrival = round(given.get("arrival_ms", 0.0) * TICK)
        decoding = row < len(decodes)
        request["row"], request["arrival"] = row, arrival
        request["target"] = given.get("target", 100)
        request["computed"] = given.get("computed", request["target"] if decoding else 0)
        request["generated"] = given.get("generated", 1 if decoding else 0)
        request["first_deadline"] = arrival + round(given.get("ttft_ms", 1e6) * TICK)
        request["schedule"] = request["first_deadline"]
        request["last_deadline"] = arrival + round(given["ttlt_ms"] * TICK) if "ttlt_ms" in given else NEVER
        request["tpot"] = round(given.get("tpot_ms", 25.0) * TICK)
        request["last_token"] = round(given.get("last_token_ms", now_ms) * TICK)
        for name in ("priority", "guard", "batch_class", "application", "relegated", "output_estimate"):
            request[name] = given.get(name, -1 if name == "output_estimate" else 0)
        if decoding or "computed" in given:
            request["pages"] = pages_for(state, request["target"] + 1)
            scalars["pages_used"] += request["pages"]
            scalars["running"] += 1
        if decoding:
            state.slots[DECODES, scalars["decoding"]] = slot
            scalars["decoding"] += 1
        else:
            place(state, slot)
            join_queue(state, slot)
    survey(state)
    return state


def chunks_of(state):
    """What the decision gives: row -> tokens."""
    slots = state.slots[CHOSEN, : state.scalars[0]["chosen"]].tolist()
    return {int(state.requests[slot]["row"]): int(state.requests[slot]["chunk"]) for slot in slots}
