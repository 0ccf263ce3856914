"""Targets, classes, priorities and output estimates, where the rows of a workload lack them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ...files.errors import UsageError
from ..dtypes import UNKNOWN_OUTPUT
from .workload import Requests, Stream, stream
from .workload_options import WorkloadOptions

Floats = NDArray[np.float64]
# Time to first token of each request alone on the device, in ms.
Uncontended = Callable[[Requests], Floats]


def set_targets(requests: Requests, options: WorkloadOptions, seed: int, uncontended: Uncontended | None) -> None:
    """Fill missing targets and unknown estimates in place; the batch class gets a target for its last token alone.

    Raises UsageError where a needed option is missing.
    """
    _set_class(requests, options, seed)
    batch = requests["batch_class"] == 1
    missing = np.isnan(requests["ttft_ms"]) & ~batch
    if options.slowdown is not None:
        requests["ttft_ms"][missing] = _slowed(requests, options, uncontended)[missing]
    else:
        _fill(requests, "ttft_ms", missing, options.ttft_ms, "ttft=1s, or slowdown=5x")
    _fill(requests, "tpot_ms", np.isnan(requests["tpot_ms"]) & ~batch, options.tpot_ms, "tpot=25ms")
    _fill(requests, "ttlt_ms", np.isnan(requests["ttlt_ms"]) & batch, options.ttlt_ms, "ttlt=600s, for the batch class")
    _set_estimates(requests, options.estimate)


def _fill(
    requests: Requests, name: str, missing: NDArray[np.bool_], values: tuple[float, ...] | None, say: str
) -> None:
    if missing.any():
        if values is None:
            raise UsageError(f"workload: {name.removesuffix('_ms')} is not given for every request; expected {say}")
        requests[name][missing] = _by_application(requests, values, name.removesuffix("_ms"))[missing]


def _by_application(requests: Requests, values: tuple[float, ...], option: str) -> Floats:
    """One value for all, or that of each row's application."""
    if len(values) == 1:
        return np.full(len(requests), values[0])
    most = int(requests["application"].max())
    if most >= len(values):
        raise UsageError(
            f"workload: {option} has {len(values)} values, and application {most} occurs; expected one value, or one "
            f"for each application from 0 to {most}, as in 40ms/80ms"
        )
    chosen: Floats = np.asarray(values)[requests["application"]]
    return chosen


def _slowed(requests: Requests, options: WorkloadOptions, uncontended: Uncontended | None) -> Floats:
    """max(slowdown x time alone, floor): without a floor short prompts get some 100 ms (SlidingServe's Table 3)."""
    if uncontended is None or options.slowdown is None:
        raise UsageError(
            "workload: slowdown needs a cost table, which says how long a request takes alone; expected ttft=1s here"
        )
    factors = _by_application(requests, options.slowdown, "slowdown")
    return np.maximum(factors * uncontended(requests), options.ttft_floor_ms)


def _set_class(requests: Requests, options: WorkloadOptions, seed: int) -> None:
    """Draws classes where an option gives a share; otherwise the classes of a file stay."""
    for option, name, purpose in (
        ("batch_share", "batch_class", Stream.BATCH_CLASS),
        ("guard_share", "guard", Stream.GUARD),
    ):
        shares = getattr(options, option)
        if shares != (0.0,):
            drawn = stream(seed, purpose).random(len(requests))
            requests[name] = drawn < _by_application(requests, shares, option)
    if options.priorities != (1.0,):
        edges = np.cumsum(options.priorities)
        if abs(edges[-1] - 1) > 1e-9:
            raise UsageError(f"workload: priorities sum to {100 * edges[-1]:g}%; expected 100%, as in 70%/30%")
        drawn = stream(seed, Stream.PRIORITY).random(len(requests))
        requests["priority"] = np.searchsorted(edges[:-1], drawn, side="right")


def _set_estimates(requests: Requests, estimate: str) -> None:
    """application: mean + 2 sigma of the outputs of the row's application in this workload (QoServe's history)."""
    unknown = requests["output_estimate"] == UNKNOWN_OUTPUT
    outputs = requests["output_tokens"]
    if estimate == "true":
        requests["output_estimate"][unknown] = outputs[unknown]
    elif estimate == "application":
        for application in np.unique(requests["application"]):
            here = requests["application"] == application
            guess = np.ceil(outputs[here].mean() + 2 * outputs[here].std())
            requests["output_estimate"][here & unknown] = guess
