"""A checked workload: its requests and the text they were made from; random numbers by purpose."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ...files.errors import UsageError
from ..dtypes import UNKNOWN_OUTPUT, WORKLOAD

Requests = NDArray[np.void]  # of dtype WORKLOAD
Floats = NDArray[np.float64]


class Stream(IntEnum):
    """Purposes of random numbers: draws for one purpose do not move the draws for another."""

    ARRIVAL = 0
    APPLICATION = 1
    PROMPT = 2
    OUTPUT = 3
    BATCH_CLASS = 4
    PRIORITY = 5
    GUARD = 6


def stream(seed: int, purpose: Stream) -> np.random.Generator:
    """The first requests of a longer workload are those of a shorter one with the same seed."""
    return np.random.default_rng([seed, purpose])


@dataclass(frozen=True, slots=True)
class Workload:
    """requests: of dtype WORKLOAD, in order of arrival, read-only. spec: every option it was made with.

    notes: for readers, such as rows left out. Raises UsageError for impossible requests.
    """

    name: str
    seed: int
    spec: str
    requests: Requests
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_requests(self.requests, self.name)
        kept = self.requests.copy()
        kept.flags.writeable = False
        object.__setattr__(self, "requests", kept)

    def sha256(self) -> str:
        """Of the requests' bytes: equal for equal workloads."""
        return hashlib.sha256(self.requests.tobytes()).hexdigest()


def empty_requests(count: int) -> Requests:
    """Empty rows: times nan, estimates unknown, the rest 0."""
    requests = np.zeros(count, dtype=WORKLOAD)
    for name in ("arrival_ms", "ttft_ms", "tpot_ms", "ttlt_ms"):
        requests[name] = np.nan
    requests["output_estimate"] = UNKNOWN_OUTPUT
    return requests


def check_requests(requests: Requests, where: str) -> None:
    """Raises UsageError naming the first impossible row (from 0), its field, and the expected value."""
    if requests.dtype != WORKLOAD or requests.ndim != 1 or not len(requests):
        raise UsageError(
            f"{where}: an array {requests.shape} of {requests.dtype.names or requests.dtype}; expected at least one "
            "row of scheduler.requests.WORKLOAD"
        )
    arrival, batch = requests["arrival_ms"], requests["batch_class"] == 1
    ttlt = requests["ttlt_ms"]
    earlier = np.concatenate(([0.0], arrival[:-1]))
    rules: Mapping[str, tuple[NDArray[np.bool_], str]] = {
        "arrival_ms": (np.isfinite(arrival) & (arrival >= earlier), "0 or more, not before the row above"),
        "prompt_tokens": (requests["prompt_tokens"] >= 1, "1 or more"),
        "cached_tokens": (
            (requests["cached_tokens"] >= 0) & (requests["cached_tokens"] < requests["prompt_tokens"]),
            "0 or more, below prompt_tokens: the last prompt token is always computed",
        ),
        "output_tokens": (requests["output_tokens"] >= 1, "1 or more: the first token is one of them"),
        "output_estimate": (
            (requests["output_estimate"] >= 1) | (requests["output_estimate"] == UNKNOWN_OUTPUT),
            f"1 or more, or {UNKNOWN_OUTPUT} for unknown",
        ),
        "ttft_ms": (_target(requests["ttft_ms"], batch), "a finite time above 0; nan in the batch class alone"),
        "tpot_ms": (_target(requests["tpot_ms"], batch), "a finite time above 0; nan in the batch class alone"),
        "ttlt_ms": (np.where(batch, _positive(ttlt), np.isnan(ttlt)), "above 0 in the batch class, else nan"),
        "batch_class": (_within(requests["batch_class"], 1), "0 or 1"),
        "application": (requests["application"] >= 0, "0 or more"),
        "priority": (requests["priority"] >= 0, "0 or more"),
        "guard": (_within(requests["guard"], 1), "0 or 1"),
    }
    for name, (right, expected) in rules.items():
        if not right.all():
            row = int(np.argmin(right))
            raise UsageError(f"{where}: row {row} (from 0), {name}: {requests[name][row]}; expected {expected}")


def _positive(times_ms: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.isfinite(times_ms) & (times_ms > 0)


def _target(times_ms: NDArray[np.float64], batch: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return _positive(times_ms) | (batch & np.isnan(times_ms))


def _within(values: NDArray[np.int8], most: int) -> NDArray[np.bool_]:
    return (values >= 0) & (values <= most)
