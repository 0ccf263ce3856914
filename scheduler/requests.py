"""The two arrays that every run starts from and ends in: one row a request, in order of arrival.

Times are ms from the start of the run. Structured dtypes, so that compiled code reads them as they are.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

UNKNOWN_OUTPUT = -1  # output_estimate of a request whose output nobody has guessed

# What arrives. ttlt_ms is nan but for batch_class requests; batch_class and guard are 0 or 1.
WORKLOAD = np.dtype(
    [
        ("arrival_ms", "f8"),
        ("prompt_tokens", "i4"),
        ("cached_tokens", "i4"),  # prefix-cache hit, part of prompt_tokens
        ("output_tokens", "i4"),  # hidden from policies
        ("output_estimate", "i4"),  # what policies may know instead
        ("ttft_ms", "f8"),
        ("tpot_ms", "f8"),  # the target of both deadline models, per token or per schedule
        ("ttlt_ms", "f8"),  # time to last token
        ("batch_class", "i1"),
        ("application", "i2"),
        ("priority", "i1"),  # 0 is the highest
        ("guard", "i1"),
    ]
)

# What became of it. Times are nan where they did not happen.
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
    ]
)


class Status(IntEnum):
    """`status` of a result row."""

    UNFINISHED = 0
    FINISHED = 1
    REFUSED = 2
    CANCELLED = 3  # by whoever asked for it
