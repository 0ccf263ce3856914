"""Requests and results written by hand, and a made-up queue that gives them."""

import numpy as np

from chunkfit.scheduler.dtypes import RESULT, Status
from chunkfit.scheduler.workloads.workload import empty_requests


def requests_of(count, ttft_ms=1000.0, tpot_ms=25.0, **fields):
    """Rows that arrive one a second, with 100 prompt and 11 output tokens unless said."""
    requests = empty_requests(count)
    requests["arrival_ms"] = 1000.0 * np.arange(count)
    requests["prompt_tokens"], requests["output_tokens"] = 100, 11
    requests["ttft_ms"], requests["tpot_ms"] = ttft_ms, tpot_ms
    for name, values in fields.items():
        requests[name] = values
    return requests


def finished(requests, ttft_ms, gap_ms):
    """All finished, with one gap length each."""
    results = np.zeros(len(requests), dtype=RESULT)
    results["status"] = Status.FINISHED
    results["first_token_ms"] = requests["arrival_ms"] + ttft_ms
    results["tokens"] = requests["output_tokens"]
    results["finish_ms"] = results["first_token_ms"] + gap_ms * (requests["output_tokens"] - 1)
    for name in ("mean_gap_ms", "p99_gap_ms", "largest_gap_ms"):
        results[name] = gap_ms
    return results


def never_started(results, rows, status):
    """Turn some rows into requests that got no token."""
    for name in ("first_token_ms", "finish_ms", "mean_gap_ms", "p99_gap_ms", "largest_gap_ms"):
        results[name][rows] = np.nan
    results["tokens"][rows], results["schedule_misses"][rows] = 0, 0
    results["status"][rows] = status


def served_in_order(requests, service_ms):
    """One server, first come first served: the first token at the end of a fixed service, then gaps of 10 ms."""
    finish = np.empty(len(requests))
    free_ms = 0.0
    for index, arrival_ms in enumerate(requests["arrival_ms"].tolist()):
        free_ms = max(free_ms, arrival_ms) + service_ms
        finish[index] = free_ms
    return finished(requests, finish - requests["arrival_ms"], np.full(len(requests), 10.0))
