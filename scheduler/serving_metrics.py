"""Serving metrics of a run: latencies and goodput over all requests, by group, and over seeds.

A figure is computed within each request, then over requests, then over seeds: gaps of one request are not independent.
Refused, unfinished and cancelled requests are misses and stay in every share's denominator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from ..files.errors import UsageError
from ..files.strict import Count, Share, Strict
from ..tables.lookup import TICKS_PER_MS
from .dtypes import Refusal, Status

Rows = NDArray[np.void]  # of dtype WORKLOAD or RESULT
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Time = Annotated[float, Field(ge=0)] | None

# One tick. A policy may end an iteration exactly on a deadline, and times are rounded to ticks.
TOLERANCE_MS = 1 / TICKS_PER_MS


class Quantiles(Strict):
    """Over the requests that have the value; None where none has."""

    count: Count
    mean: Time
    p50: Time
    p90: Time
    p99: Time


class Refusals(Strict):
    """Refused requests by reason."""

    too_long: Count = Field(description="longer than the contexts, prefixes and chunks that the costs hold")
    kv_capacity: Count = Field(description="longer than the KV capacity")
    no_output: Count = Field(description="without output tokens")
    policy: Count = Field(description="by the policy")

    def lines(self) -> list[str]:
        """`200 longer than ...` for each reason that occurred."""
        fields = type(self).model_fields
        return [f"{count:,} {fields[name].description}" for name, count in self.model_dump().items() if count]


class GroupMetrics(Strict):
    """Of one run, over all requests or a group of them."""

    requests: Count
    finished: Count
    refused: Count
    refused_because: Refusals
    unfinished: Count
    cancelled: Count
    good: Count = Field(description="requests that meet their targets under the run's SLO criterion")
    good_share: Share = Field(description="of all requests, those that did not finish included")
    goodput_per_s: Annotated[float, Field(ge=0)] = Field(description="good requests per second of the run")
    ttft_met: Share = Field(description="share with the first token in time, of all requests")
    missing_schedule: Share = Field(description="share with a token after arrival + ttft + k tpot, of those started")
    schedule_misses: Count = Field(description="such tokens")
    tokens: Count = Field(description="output tokens given")
    tokens_per_s: Annotated[float, Field(ge=0)]
    preemptions: Count
    ttft_ms: Quantiles
    mean_gap_ms: Quantiles = Field(description="of each request's mean gap (vLLM's TPOT)")
    p99_gap_ms: Quantiles = Field(description="of each request's own P99 gap (SLOWeave's TPOT)")
    largest_gap_ms: Quantiles
    latency_ms: Quantiles = Field(description="arrival to last token")


class RunMetrics(Strict):
    """criterion: of a good request, a name of CRITERIA. groups: `all`, then by class and application."""

    criterion: str
    makespan_s: Annotated[float, Field(gt=0)] = Field(description="start of the run to its end")
    groups: dict[str, GroupMetrics]

    @field_validator("groups")
    @classmethod
    def _all_is_there(cls, groups: dict[str, GroupMetrics]) -> dict[str, GroupMetrics]:
        if "all" not in groups:
            raise ValueError("no group `all`")
        return groups


class SeedSummary(Strict):
    """One figure over seeds. sd: None with one seed."""

    seeds: Count
    mean: float
    sd: float | None
    least: float
    most: float


def _per_token(requests: Rows, results: Rows) -> Bools:
    """The request's own P99 gap is within its target; one token has no gap."""
    return _within(results["p99_gap_ms"], requests["tpot_ms"])


def _mean_gap(requests: Rows, results: Rows) -> Bools:
    """The request's mean gap is within its target. It hides single long gaps, and is reported to show that."""
    return _within(results["mean_gap_ms"], requests["tpot_ms"])


def _schedule(requests: Rows, results: Rows) -> Bools:
    """No token was later than arrival + ttft + k tpot."""
    met: Bools = results["schedule_misses"] == 0
    return met


CRITERIA: dict[str, Callable[[Rows, Rows], Bools]] = {
    "per_token": _per_token,
    "schedule": _schedule,
    "mean_gap": _mean_gap,
}


def criterion_named(name: str) -> Callable[[Rows, Rows], Bools]:
    """`-` and `_` are the same. Raises UsageError for an unknown name."""
    criterion = CRITERIA.get(name.replace("-", "_"))
    if criterion is None:
        raise UsageError(f"criterion {name!r} is unknown; expected one of {', '.join(CRITERIA)}")
    return criterion


def good_requests(requests: Rows, results: Rows, criterion: str) -> Bools:
    """(m,): finished, first token in time, criterion met; in the batch class finished within ttlt_ms.

    Raises UsageError for an unknown criterion, or results of other requests.
    """
    if len(requests) != len(results):
        raise UsageError(f"{len(results)} results for {len(requests)} requests; expected one row a request")
    interactive = _ttft_met(requests, results) & criterion_named(criterion)(requests, results)
    batch = _within(results["finish_ms"] - requests["arrival_ms"], requests["ttlt_ms"])
    met: Bools = (results["status"] == Status.FINISHED) & np.where(requests["batch_class"] == 1, batch, interactive)
    return met


def measure(requests: Rows, results: Rows, criterion: str, end_ms: float) -> RunMetrics:
    """requests, results: (m,) of WORKLOAD and RESULT. end_ms: when the run ended, on its clock.

    Raises UsageError as `good_requests`, and for an end before the start or before the last token.
    """
    good = good_requests(requests, results, criterion)
    last = np.nanmax(np.concatenate((results["finish_ms"], results["first_token_ms"], [0.0])))
    if not (np.isfinite(end_ms) and end_ms > 0 and end_ms >= last - TOLERANCE_MS):
        raise UsageError(f"run ends at {end_ms:g} ms, its last token is at {last:g} ms; expected an end after it")
    groups = {
        name: _group(requests[rows], results[rows], good[rows], end_ms / 1000) for name, rows in _groups(requests)
    }
    return RunMetrics(criterion=criterion.replace("-", "_"), makespan_s=end_ms / 1000, groups=groups)


def over_seeds(values: Sequence[float]) -> SeedSummary:
    """One figure over the seeds of the same run. Raises UsageError for no value."""
    if not values:
        raise UsageError("no run to take the mean of; expected one seed or more")
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return SeedSummary(
        seeds=len(values), mean=float(np.mean(values)), sd=sd, least=float(min(values)), most=float(max(values))
    )


def figures(group: GroupMetrics) -> dict[str, float | None]:
    """Every figure by name, quantiles as `ttft_ms_p99`."""
    flat: dict[str, float | None] = {}
    for name, value in group.model_dump().items():
        flat |= {f"{name}_{part}": each for part, each in value.items()} if isinstance(value, dict) else {name: value}
    return flat


def summary(groups: Sequence[GroupMetrics]) -> dict[str, SeedSummary]:
    """Each figure of one group over the seeds that have it; a figure that no seed has is absent."""
    flat = [figures(group) for group in groups]
    known = {name: [each[name] for each in flat] for name in (flat[0] if flat else {})}
    values = {name: [value for value in column if value is not None] for name, column in known.items()}
    return {name: over_seeds(column) for name, column in values.items() if column}


def _groups(requests: Rows) -> list[tuple[str, Bools]]:
    """`all`, and classes and applications where there are several."""
    groups = [("all", np.ones(len(requests), dtype=np.bool_))]
    batch = requests["batch_class"] == 1
    if batch.any():
        groups += [(name, rows) for name, rows in (("interactive", ~batch), ("batch", batch)) if rows.any()]
    applications = np.unique(requests["application"])
    if len(applications) > 1:
        groups += [(f"application {index}", requests["application"] == index) for index in applications]
    return groups


def _group(requests: Rows, results: Rows, good: Bools, seconds: float) -> GroupMetrics:
    status = results["status"]
    started = np.isfinite(results["first_token_ms"])
    missing = results["schedule_misses"][started] > 0
    tokens = int(results["tokens"].sum(dtype=np.int64))
    return GroupMetrics(
        requests=len(requests),
        finished=int((status == Status.FINISHED).sum()),
        refused=int((status == Status.REFUSED).sum()),
        refused_because=Refusals(
            **{reason.name.lower(): int((results["refusal"] == reason).sum()) for reason in Refusal if reason}
        ),
        unfinished=int((status == Status.UNFINISHED).sum()),
        cancelled=int((status == Status.CANCELLED).sum()),
        good=int(good.sum()),
        good_share=float(good.mean()),
        goodput_per_s=float(good.sum() / seconds),
        ttft_met=float(_ttft_met(requests, results).mean()),
        missing_schedule=float(missing.mean()) if len(missing) else 0.0,
        schedule_misses=int(results["schedule_misses"].sum(dtype=np.int64)),
        tokens=tokens,
        tokens_per_s=tokens / seconds,
        preemptions=int(results["preemptions"].sum(dtype=np.int64)),
        ttft_ms=_quantiles(results["first_token_ms"] - requests["arrival_ms"]),
        mean_gap_ms=_quantiles(results["mean_gap_ms"]),
        p99_gap_ms=_quantiles(results["p99_gap_ms"]),
        largest_gap_ms=_quantiles(results["largest_gap_ms"]),
        latency_ms=_quantiles(results["finish_ms"] - requests["arrival_ms"]),
    )


def _quantiles(values: Floats) -> Quantiles:
    """A quantile is the value of a request: the smallest with that share of requests at or below it."""
    known = values[np.isfinite(values)]
    if not len(known):
        return Quantiles(count=0, mean=None, p50=None, p90=None, p99=None)
    p50, p90, p99 = np.quantile(known, (0.5, 0.9, 0.99), method="inverted_cdf").tolist()
    return Quantiles(count=len(known), mean=float(known.mean()), p50=p50, p90=p90, p99=p99)


def _ttft_met(requests: Rows, results: Rows) -> Bools:
    late = results["first_token_ms"] - requests["arrival_ms"] > requests["ttft_ms"] + TOLERANCE_MS
    met: Bools = np.isfinite(results["first_token_ms"]) & ~late
    return met


def _within(values_ms: Floats, targets_ms: Floats) -> Bools:
    """nan passes: the request has no such value, and an unfinished request is a miss in any case."""
    return ~(values_ms > targets_ms + TOLERANCE_MS)
