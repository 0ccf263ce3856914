"""Structured dtypes of a run's arrays: requests that arrive, their results, requests in flight, scalars, iterations.

Compiled code reads the arrays as they are. Times of WORKLOAD, RESULT and ITERATION are ms
from the start of the run; times of REQUEST and SCALARS are ticks of 2^-14 ms.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

UNKNOWN_OUTPUT = -1  # output_estimate of a request without an estimate

# A request that arrives. ttlt_ms is nan except in the batch class; batch_class and guard are 0 or 1.
WORKLOAD = np.dtype(
    [
        ("arrival_ms", "f8"),
        ("prompt_tokens", "i4"),
        ("cached_tokens", "i4"),  # prefix-cache hit, part of prompt_tokens
        ("output_tokens", "i4"),  # hidden from policies
        ("output_estimate", "i4"),  # known to policies
        ("ttft_ms", "f8"),
        ("tpot_ms", "f8"),  # the target of both deadline models, per token or per schedule
        ("ttlt_ms", "f8"),  # time to last token
        ("batch_class", "i1"),
        ("application", "i2"),
        ("priority", "i1"),  # 0 is the highest
        ("guard", "i1"),
    ]
)

# The result of a request. A time is nan where the event did not happen.
RESULT = np.dtype(
    [
        ("status", "i1"),
        ("first_token_ms", "f8"),  # on the run's clock, not since arrival
        ("finish_ms", "f8"),
        ("tokens", "i4"),  # output tokens given
        ("mean_gap_ms", "f8"),
        ("p99_gap_ms", "f8"),
        ("largest_gap_ms", "f8"),
        ("schedule_misses", "i4"),  # tokens after arrival + ttft + k tpot, k = 0 for the first
        ("preemptions", "i4"),
        ("refusal", "i1"),
    ]
)


class Refusal(IntEnum):
    """`refusal` of a result row: why the request was refused."""

    NONE = 0
    TOO_LONG = 1  # for the contexts, prefixes and chunks that the costs hold
    KV_CAPACITY = 2
    NO_OUTPUT = 3  # it wants none
    POLICY = 4


class Status(IntEnum):
    """`status` of a result row."""

    UNFINISHED = 0
    FINISHED = 1
    REFUSED = 2
    CANCELLED = 3  # by the client


# A request in flight.
REQUEST = np.dtype(
    [
        ("row", "i8"),  # of the workload, in order of arrival
        ("key", "i8"),  # place in the prefill queue, lowest first; ties in order of arrival
        ("arrival", "i8"),
        ("first_deadline", "i8"),  # arrival + TTFT target
        ("schedule", "i8"),  # deadline of token 1 in the `schedule` model; the real first token's time where late
        ("last_deadline", "i8"),  # of the last token, arrival + TTLT target: batch class
        ("tpot", "i8"),  # target between tokens
        ("last_token", "i8"),  # time of the newest token
        ("kept_gap", "i8"),  # smallest of the largest gaps that are kept for its P99
        ("target", "i4"),  # tokens to prefill: the prompt, and after a preemption what was generated too
        ("computed", "i4"),  # of them, or KV tokens of a decode
        ("generated", "i4"),
        ("output_estimate", "i4"),
        ("chunk", "i4"),  # of the decision in hand
        ("pages", "i4"),
        ("schedule_misses", "i4"),
        ("preemptions", "i4"),
        ("application", "i2"),
        ("priority", "i1"),
        ("guard", "i1"),
        ("batch_class", "i1"),
        ("relegated", "i1"),
    ],
    align=True,
)

# A scheduler's numbers: one row.
SCALARS = np.dtype(
    [
        ("now", "i8"),
        ("iteration", "i8"),
        ("queued", "i8"),
        ("decoding", "i8"),
        ("chosen", "i8"),
        ("freed", "i8"),  # slots that were used and are free again
        ("fresh", "i8"),  # the next slot that never was used
        ("running", "i8"),  # requests that hold pages
        ("max_running", "i8"),
        ("pages", "i8"),
        ("pages_used", "i8"),
        ("page_tokens", "i8"),
        # The engine's own limits of one iteration
        ("max_chunk_tokens", "i8"),
        ("max_batch_tokens", "i8"),
        ("max_prefix_tokens", "i8"),
        ("max_request_tokens", "i8"),
        # Of the decodes in the next iteration
        ("decode_kv_tokens", "i8"),  # sum of their contexts
        ("longest_context", "i8"),
        ("pages_short", "i8"),  # how many have no page for their next token
        # Of the decision in hand
        ("chunk_tokens", "i8"),
        ("prefix_tokens", "i8"),
        ("ordered", "i8"),  # how many stand in the ORDER
        # Kept by policies between decisions
        ("last_exception", "i8"),  # iteration
        ("exceptions", "i8"),
        ("relegations", "i8"),
        # Decisions by what the cost's answer rests on (tables/support.py); the others were measured
        ("by_order", "i8"),
        ("unmeasured", "i8"),
        ("throughput", "f8"),  # of prefill, tokens per tick, moving average; 0 before the first where none is given
    ],
    align=True,
)

# One row an iteration. latency_ms: scheduling time included. slack_ms: to the earliest deadline of a decode in the
# policy's model, nan without any. bound_ms: what the policy's cost says of the batch, nan outside of its domain.
ITERATION = np.dtype(
    [
        ("start_ms", "f8"),
        ("latency_ms", "f8"),
        ("bound_ms", "f8"),
        ("slack_ms", "f8"),
        ("decodes", "i4"),
        ("context_tokens", "i4"),
        ("chunk_tokens", "i4"),
        ("prefix_tokens", "i4"),
        ("chunks", "i4"),
        ("queued", "i4"),
        ("pages_used", "i4"),
    ]
)
