"""Workloads by name, and the making of a workload from its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ...files.errors import UsageError
from ...files.specs import join, split
from . import laws
from .laws import PROCESSES, Floats, Shape
from .request_targets import Uncontended, set_targets
from .traces import Source, azure, drawn_lengths, mix, mooncake, requests_file
from .workload import Requests, Stream, Workload, stream
from .workload_options import TRACE_ARRIVALS, WorkloadOptions, resolve


@dataclass(frozen=True, slots=True)
class Kind:
    """defaults: option texts, which a spec may replace. file_options: those of file and cache that it takes."""

    summary: str
    source: Source
    defaults: Mapping[str, str] = field(default_factory=dict)
    file_options: tuple[str, ...] = ()


# Rates, counts and TTFT targets of mixed, long and bursty land near SLOWeave's published figures; those of chat are
# chosen here, since none are published. SlidingServe's are its Tables 2 and 3, with a floor.
_SLOWEAVE = {"tpot": "25ms", "requests": "950", "ttft": "1.1s"}
_DIALOGUE = {"requests": "1000", "rate": "2", "slowdown": "5x", "tpot": "40ms"}
_SUMMARY = {"requests": "1000", "rate": "1", "slowdown": "10x", "tpot": "80ms"}
_BOTH = {"requests": "1000", "rate": "1.5", "slowdown": "5x/10x", "tpot": "40ms/80ms"}
_TRACE = {"arrivals": TRACE_ARRIVALS}

KINDS: dict[str, Kind] = {
    "chat": Kind("SLOWeave's short prompts", mix(laws.CHAT), {**_SLOWEAVE, "rate": "85"}),
    "mixed": Kind(
        "SLOWeave's mix of short and long prompts",
        mix(laws.MIXED),
        {**_SLOWEAVE, "rate": "85", "max_prompt": "8192"},
    ),
    "long": Kind(
        "SLOWeave's long prompts", mix(laws.LONG), {**_SLOWEAVE, "rate": "42", "requests": "460", "ttft": "3.5s"}
    ),
    "bursty": Kind(
        "SLOWeave's mix in bursts",
        mix(laws.MIXED),
        {**_SLOWEAVE, "rate": "55", "max_prompt": "8192", "arrivals": "on-off"},
    ),
    "sharegpt": Kind("SlidingServe's dialogue lengths", mix(laws.SHAREGPT), _DIALOGUE),
    "arxiv-v1": Kind("SlidingServe's summaries of shorter papers", mix(laws.ARXIV_V1), _SUMMARY),
    "arxiv-v2": Kind("SlidingServe's summaries of longer papers", mix(laws.ARXIV_V2), _SUMMARY),
    "mixed-v1": Kind("SlidingServe's dialogue and summaries, 3:1", mix(laws.MIXED_V1), _BOTH),
    "mixed-v2": Kind("SlidingServe's dialogue and longer summaries, 5:1", mix(laws.MIXED_V2), _BOTH),
    "azure": Kind("an Azure LLM inference trace (CSV)", azure, _TRACE, ("file",)),
    "mooncake": Kind(
        "a Mooncake trace (JSON lines) over a prefix cache", mooncake, {**_TRACE, "cache": "500000"}, ("file", "cache")
    ),
    "lengths": Kind("a CSV of num_prefill_tokens, num_decode_tokens", drawn_lengths, {}, ("file",)),
    "requests": Kind("requests of your own (CSV or JSON lines)", requests_file, _TRACE, ("file",)),
}


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """A workload by name with its options, those of the workload itself included."""

    name: str
    options: WorkloadOptions

    @property
    def text(self) -> str:
        """Every option in its canonical form: equal texts and seeds are equal workloads."""
        return join(self.name, self.options.texts(given=True))


def workload_spec(text: str, **replaced: str) -> WorkloadSpec:
    """The workload of `text`, with `replaced` option texts in place of its own. Raises UsageError."""
    name, texts = split(text, "workload", "mixed:rate=85,requests=950")
    kind = KINDS.get(name)
    if kind is None:
        known = "; ".join(f"{each}, {KINDS[each].summary}" for each in KINDS)
        raise UsageError(f"workload {name!r} is unknown; expected one of: {known}")
    return WorkloadSpec(name, resolve(name, texts | replaced, kind.defaults, kind.file_options))


def workload(text: str, seed: int, uncontended: Uncontended | None = None) -> Workload:
    """The workload of `text`; equal arguments give equal bytes.

    uncontended: time to first token of each request alone on the device, needed where `slowdown` sets the targets.
    Raises UsageError naming the option, and LogFormatError for a wrong row of a file.
    """
    if seed < 0:
        raise UsageError(f"workload {text!r}: seed {seed}; expected 0 or more")
    spec = workload_spec(text)
    options = spec.options
    draft = KINDS[spec.name].source(options, seed)
    requests, notes = draft.requests, list(draft.notes)
    _scale(requests, options, notes)
    requests["arrival_ms"] = _arrivals(requests, options, seed)
    set_targets(requests, options, seed, uncontended)
    return Workload(spec.name, seed, spec.text, requests, tuple(notes))


def _scale(requests: Requests, options: WorkloadOptions, notes: list[str]) -> None:
    factors = {"prompt_tokens": options.prompt_scale, "output_tokens": options.output_scale}
    for name, factor in factors.items():
        if factor != 1:
            scaled = np.rint(requests[name] * factor)
            if scaled.max() > np.iinfo(np.int32).max:
                raise UsageError(
                    f"workload: {name} scaled by {factor:g} reach {scaled.max():g}; expected a smaller factor"
                )
            requests[name] = np.maximum(scaled, 1)
    cached = np.rint(requests["cached_tokens"] * options.prompt_scale)
    if options.max_prompt is not None:
        cut = requests["prompt_tokens"] > options.max_prompt
        requests["prompt_tokens"][cut] = options.max_prompt
        if cut.any():
            notes.append(f"{int(cut.sum()):,} of {len(cut):,} prompts cut to {options.max_prompt:,} tokens")
    requests["cached_tokens"] = np.minimum(cached, requests["prompt_tokens"] - 1)


def _arrivals(requests: Requests, options: WorkloadOptions, seed: int) -> Floats:
    """Arrivals of a process, or of the trace, moved to start at 0 and stretched to the requested mean rate."""
    if options.arrivals != TRACE_ARRIVALS:
        if options.rate is None:
            raise UsageError("workload: rate is not given; expected mean requests a second, such as rate=10")
        shape = Shape(options.cv, options.period_ms, options.on_ms, options.peak)
        return PROCESSES[options.arrivals][0](stream(seed, Stream.ARRIVAL), len(requests), options.rate, shape)
    own_ms: Floats = requests["arrival_ms"]
    if np.isnan(own_ms).any():
        raise UsageError("workload: no arrivals of its own; expected a process and a rate: arrivals=poisson,rate=10")
    since_first: Floats = own_ms - own_ms[0]
    if options.rate is None:
        return since_first
    if since_first[-1] == 0:
        raise UsageError("workload: all requests arrive at once, which no stretching gives a rate; leave rate out")
    return since_first * ((len(own_ms) - 1) * 1000 / options.rate / float(since_first[-1]))
