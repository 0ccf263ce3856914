"""The text of a workload: `name`, or `name:option=value,option=value`; lists are written `40ms/80ms`.

An option is a line of OPTIONS; what a workload does not say itself is an option's `unless`.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...files.errors import UsageError
from ...files.units import milliseconds, percentage
from .arrival_processes import PROCESSES

TRACE_ARRIVALS = "trace"  # the file's own
ESTIMATES = ("none", "true", "application")


@dataclass(frozen=True, slots=True)
class Options:
    """A spec's values by field; None where it says nothing.

    Tuples hold one value for all or one an application, but for priority_shares, which has one a priority.
    """

    file: str | None
    requests: int | None
    arrivals: str
    rate: float | None
    cv: float
    period_ms: float
    on_ms: float
    peak: float
    prompt_scale: float
    output_scale: float
    max_prompt: int | None
    cache_tokens: int
    ttft_ms: tuple[float, ...] | None
    slowdown: tuple[float, ...] | None
    ttft_floor_ms: float
    tpot_ms: tuple[float, ...] | None
    batch_share: tuple[float, ...]
    ttlt_ms: tuple[float, ...] | None
    priority_shares: tuple[float, ...]
    guard_share: tuple[float, ...]
    estimate: str


def _count(text: str, option: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 10**9:
        raise UsageError(f"{option} {text!r}: expected a whole number from 1 to 1,000,000,000")
    return int(text)


def _tokens(text: str, option: str) -> int:
    return 0 if text == "0" else _count(text, option)


def _number(text: str, option: str, unit: str, example: str) -> float:
    try:
        value = float(text.removesuffix(unit))
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"{option} {text!r}: expected a number above 0, such as {example}")
    return value


def _rate(text: str, option: str) -> float:
    return _number(text, option, "/s", "85 (requests a second)")


def _factor(text: str, option: str) -> float:
    if not text.endswith("x"):
        raise UsageError(f"{option} {text!r}: expected a factor with its x, such as 1.5x")
    return _number(text, option, "x", "1.5x")


def _plain(text: str, option: str) -> float:
    return _number(text, option, "", "2")


def _duration(text: str, option: str) -> float:
    value = milliseconds(text, option)
    if value <= 0:
        raise UsageError(f"{option} {text!r}: expected a time above 0")
    return value


def _text(text: str, option: str) -> str:
    return text


def _one_of(*names: str) -> Callable[[str, str], str]:
    def parse(text: str, option: str) -> str:
        name = text.replace("_", "-")
        if name not in names:
            raise UsageError(f"{option} {text!r}: expected one of {', '.join(names)}")
        return name

    return parse


def _list(parse: Callable[[str, str], float]) -> Callable[[str, str], tuple[float, ...]]:
    return lambda text, option: tuple(parse(part, option) for part in text.split("/"))


@dataclass(frozen=True, slots=True)
class Option:
    """field: of `Options`. unless: what holds when neither spec nor workload says it; None: nothing."""

    field: str
    parse: Callable[[str, str], Any]
    unless: str | None
    help: str


OPTIONS: dict[str, Option] = {
    "file": Option("file", _text, None, "the trace or the lengths (.csv, .jsonl, .parquet; .gz too)"),
    "requests": Option("requests", _count, None, "how many; of a trace the first ones"),
    "arrivals": Option("arrivals", _one_of(*PROCESSES, TRACE_ARRIVALS), "poisson", "how they arrive"),
    "rate": Option("rate", _rate, None, "mean requests a second; a trace is stretched to it"),
    "cv": Option("cv", _plain, "1", "gamma: standard deviation of the waiting times over their mean"),
    "period": Option("period_ms", _duration, "1s", "on-off, square: length of a wave"),
    "on": Option("on_ms", _duration, "1s", "on-off, square: how long of it the rate is high"),
    "peak": Option("peak", _factor, "1x", "on-off, square: high rate over mean rate"),
    "prompt_scale": Option("prompt_scale", _factor, "1x", "prompts and their cached part, stretched"),
    "output_scale": Option("output_scale", _factor, "1x", "outputs, stretched"),
    "max_prompt": Option("max_prompt", _count, None, "longer prompts are cut to this many tokens"),
    "cache": Option("cache_tokens", _tokens, "0", "capacity of the prefix cache in tokens, 0: no hits"),
    "ttft": Option("ttft_ms", _list(_duration), None, "target of the first token"),
    "slowdown": Option("slowdown", _list(_factor), None, "the same, as a multiple of the time alone on the device"),
    "ttft_floor": Option("ttft_floor_ms", _duration, "500ms", "least TTFT target where slowdown sets it"),
    "tpot": Option("tpot_ms", _list(_duration), None, "target of every further token"),
    "batch_share": Option("batch_share", _list(percentage), "0%", "requests of the batch class"),
    "ttlt": Option("ttlt_ms", _list(_duration), None, "target of the last token in the batch class"),
    "priorities": Option("priority_shares", _list(percentage), "100%", "shares of priority 0, 1, ..."),
    "guard_share": Option("guard_share", _list(percentage), "0%", "requests under guard"),
    "estimate": Option(
        "estimate", _one_of(*ESTIMATES), "application", "output estimate: mean + 2 sigma of its application"
    ),
}
OF_ARRIVALS = ("cv", "period", "on", "peak")


def split_spec(
    spec: str, what: str = "workload", example: str = "mixed:rate=85,requests=950"
) -> tuple[str, dict[str, str]]:
    """Name and option texts of a workload, or of a policy.

    Raises UsageError for a text of another form, and for an option said twice.
    """
    name, colon, rest = spec.partition(":")
    said = split_options(rest, f"{what} {spec!r}", example) if colon else {}
    return name.strip().replace("_", "-"), said


def split_options(text: str, where: str, example: str) -> dict[str, str]:
    """`option=value,option=value`. Raises UsageError naming `where` for another form, and for an option said twice."""
    said: dict[str, str] = {}
    for part in text.split(","):
        option, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not option or not value:
            raise UsageError(f"{where}: {part!r}; expected option=value, as in {example}")
        option = option.replace("-", "_")
        if option in said:
            raise UsageError(f"{where}: {option} is said twice; expected once")
        said[option] = value
    return said


def resolve(name: str, said: Mapping[str, str], defaults: Mapping[str, str], file_options: tuple[str, ...]) -> str:
    """The canonical spec: what was said over what the workload is. file_options: of `file` and `cache` those it takes.

    Raises UsageError for an option that is unknown or has no meaning here.
    """
    for option in said:
        if option not in OPTIONS:
            close = difflib.get_close_matches(option, OPTIONS, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise UsageError(f"workload {name}: option {option!r} is unknown; expected {', '.join(OPTIONS)}{hint}")
        if option in ("file", "cache") and option not in file_options:
            raise UsageError(f"workload {name}: {option} has no meaning here; leave it out")
    if "ttft" in said and "slowdown" in said:
        raise UsageError(f"workload {name}: ttft and slowdown both set the TTFT target; expected one of them")
    process = _one_of(*PROCESSES, TRACE_ARRIVALS)(said.get("arrivals", defaults.get("arrivals", "poisson")), "arrivals")
    takes = PROCESSES[process][1] if process in PROCESSES else {}
    for option in OF_ARRIVALS:
        if option in said and option not in takes:
            raise UsageError(f"workload {name}: {option} has no meaning for arrivals={process}; leave it out")
    own = {option: text for option, text in defaults.items() if option not in OF_ARRIVALS or option in takes}
    if "slowdown" in said:
        own.pop("ttft", None)
    if "ttft" in said:
        own = {option: text for option, text in own.items() if option not in ("slowdown", "ttft_floor")}
    texts = {**takes, **own, **said, "arrivals": process}
    if "ttft_floor" in texts and "slowdown" not in texts:
        raise UsageError(f"workload {name}: ttft_floor has no meaning without slowdown; leave it out")
    # What is assumed where nothing is said, and moves results, is part of the recipe.
    for option in ("estimate", "ttft_floor") if "slowdown" in texts else ("estimate",):
        texts.setdefault(option, OPTIONS[option].unless or "")
    return f"{name}:" + ",".join(f"{option}={texts[option]}" for option in OPTIONS if option in texts)


def options_of(canonical: str) -> Options:
    """Raises UsageError naming the option whose value cannot be read."""
    texts = split_spec(canonical)[1]
    values: dict[str, Any] = {}
    for name, option in OPTIONS.items():
        text = texts.get(name, option.unless)
        values[option.field] = None if text is None else option.parse(text, name)
    return Options(**values)
