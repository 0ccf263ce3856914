"""The same tables on recorded traffic: Azure's conversation and code traces, and Mooncake's synthetic trace.

A trace is cut into ten parts, each a run of its own from an empty engine; a rate is the mean over the whole trace,
whose pattern is kept and stretched. On the affine cost the rate is the one at which `sloweave` has 80% good at 25 ms,
as in SLOWeave's mixed workload; on the curved one capacities are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from report import Row

from .play import Setting
from .sliding import (
    EDF,
    OVERLOAD,
    PARTS,
    QOSERVE,
    SHARE,
    SLIDING,
    TWO_3090,
    Map,
    bracket,
    capacities,
    capacity_of,
    capacity_row,
    late_percent,
    rated,
)
from .static_grid import MANY, Play, compared, goodput_rows, ratio_rows, static_sets
from .verdicts import figure, ratio_row

PARTS_OF_A_TRACE = 10
AT_GOOD = 0.80
AFFINE = Setting("affine", "per_token", 128, parts=PARTS_OF_A_TRACE, rates=(2.0, 128.0))
CURVED = replace(TWO_3090, parts=PARTS_OF_A_TRACE, rates=(0.02, 8.0))


@dataclass(frozen=True, slots=True)
class TraceTexts:
    """The workload's text under the targets of each deadline model."""

    per_token: str
    schedule: str


@dataclass(frozen=True, slots=True)
class Trace:
    """ttft: on the affine cost, as that of mixed or long. targets: on the curved one, SlidingServe's of dialogue or of
    summaries, by the length of the prompts."""

    kind: str
    file: str
    ttft: str
    targets: str

    def path(self, folder: str) -> Path:
        return Path(folder) / "traces" / self.file

    def texts(self, folder: str) -> TraceTexts:
        text = f"{self.kind}:file={self.path(folder)}"
        return TraceTexts(f"{text},ttft={self.ttft},tpot=25ms", f"{text},{self.targets}")


TRACES = {
    "azure conv": Trace("azure", "azure/AzureLLMInferenceTrace_conv.csv", "1.1s", "slowdown=5x,tpot=40ms"),
    "azure code": Trace("azure", "azure/AzureLLMInferenceTrace_code.csv", "1.1s", "slowdown=10x,tpot=80ms"),
    "mooncake": Trace("mooncake", "mooncake/synthetic_trace.jsonl", "3.5s", "slowdown=10x,tpot=80ms"),
}
POLICIES = (EDF, "sarathi-edf-512", *PARTS.values(), QOSERVE, "qoserve-2552")


def skipped(folder: str | None) -> Iterator[Row]:
    """A row for each trace that is not there, with the reason."""
    for name, trace in TRACES.items():
        if folder is None:
            yield Row(f"{name}: skipped", None, "CHUNKFIT_PUBLIC_DATA is not set: no traces here", 0)
        elif not trace.path(folder).exists():
            yield Row(f"{name}: skipped", None, f"no {trace.file} in CHUNKFIT_PUBLIC_DATA", 0)


def present(folder: str | None) -> dict[str, TraceTexts]:
    """Those that are there, as workloads without a rate."""
    if folder is None:
        return {}
    return {name: trace.texts(folder) for name, trace in TRACES.items() if trace.path(folder).exists()}


def sloweave_rows(
    play: Play, spread: Map, found: dict[str, TraceTexts], parts: range, per_octave: int
) -> Iterator[Row]:
    """SLOWeave against static policies, at a rate near its capacity."""
    cases = [(each.per_token, MANY, AFFINE, parts, AT_GOOD) for each in found.values()]
    rates = spread(capacity_of, *zip(*cases, strict=True))
    for (name, each), highest in zip(found.items(), rates, strict=True):
        good = f"{name}: highest rate with {100 * AT_GOOD:g}% good by {MANY} at 25 ms"
        yield Row(good, highest.rate, "req/s", len(parts), highest.rate, highest.above)
        rate = float(f"{highest.rate:.2g}")
        title = f"{name} {rate:g}/s, batch {AFFINE.max_running}"
        rows = compared(play, title, rated(each.per_token, rate), AFFINE, parts, static_sets(per_octave))
        yield from goodput_rows(rows)
        yield from ratio_rows(rows)


def sliding_rows(spread: Map, found: dict[str, TraceTexts], parts: range) -> Iterator[Row]:
    """SlidingServe, QoServe and Sarathi-EDF: capacity at 99% good, and late requests at twice that of Sarathi-EDF."""
    specs = {name: each.schedule for name, each in found.items()}
    capacity = capacities(spread, tuple(specs.values()), POLICIES, CURVED, parts, SHARE)
    for name, spec in specs.items():
        for policy in POLICIES:
            yield capacity_row(f"{name}, {policy}", capacity[spec, policy], len(parts))
        edf = capacity[spec, EDF]
        yield ratio_row(f"{name}, {SLIDING} over {EDF}: capacity", bracket(capacity[spec, SLIDING], edf, len(parts)))
        rate = OVERLOAD * max(edf.rate, CURVED.rates[0])
        for policy in POLICIES:
            late = late_percent(spread, rated(spec, rate), policy, CURVED, parts)
            yield figure(f"{name}, {policy}: late at {rate:.3g}/s", late, "%")
