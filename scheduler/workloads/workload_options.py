"""The options of a workload, and the rules that hold between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from ...files.errors import UsageError
from ...files.specs import OptionsModel, read_options
from ...files.units import SHARE, Count, Duration, Factor, Positive, Text, choice, duration, factor, rate, whole
from .laws import PROCESSES

TRACE_ARRIVALS = "trace"  # the file's own
OF_ARRIVALS = ("cv", "period", "on", "peak")
Durations = Annotated[tuple[float, ...], duration(above=True).list()]
Factors = Annotated[tuple[float, ...], factor().list()]
Shares = Annotated[tuple[float, ...], SHARE.list()]
Rate = Annotated[float, rate("")]
Tokens = Annotated[int, whole(0)]
Arrivals = Annotated[str, choice(*PROCESSES, TRACE_ARRIVALS)]
Estimate = Annotated[str, choice("none", "true", "application")]


class WorkloadOptions(OptionsModel):
    """None: not given. Tuples hold one value for all requests or one for each application."""

    file: Text | None = Field(None, description="the trace or the lengths (.csv, .jsonl, .parquet; .gz too)")
    requests: Count | None = Field(None, description="how many; of a trace the first ones")
    arrivals: Arrivals = Field("poisson", description="how they arrive")
    rate: Rate | None = Field(None, description="mean requests a second; a trace is stretched to it")
    cv: Positive = Field(1.0, description="gamma: standard deviation of the waiting times over their mean")
    period_ms: Duration = Field(1000.0, description="on-off, square: length of a wave")
    on_ms: Duration = Field(1000.0, description="on-off, square: how long of it the rate is high")
    peak: Factor = Field(1.0, description="on-off, square: high rate over mean rate")
    prompt_scale: Factor = Field(1.0, description="prompts and their cached part, stretched")
    output_scale: Factor = Field(1.0, description="outputs, stretched")
    max_prompt: Count | None = Field(None, description="longer prompts are cut to this many tokens")
    cache: Tokens = Field(0, description="capacity of the prefix cache in tokens, 0: no hits")
    ttft_ms: Durations | None = Field(None, description="target of the first token")
    slowdown: Factors | None = Field(None, description="the same, as a multiple of the time alone on the device")
    ttft_floor_ms: Duration = Field(500.0, description="least TTFT target where slowdown sets it")
    tpot_ms: Durations | None = Field(None, description="target of every further token")
    batch_share: Shares = Field((0.0,), description="requests of the batch class")
    ttlt_ms: Durations | None = Field(None, description="target of the last token in the batch class")
    priorities: Shares = Field((1.0,), description="shares of priority 0, 1, ...")
    guard_share: Shares = Field((0.0,), description="requests under guard")
    estimate: Estimate = Field("application", description="output estimate: mean + 2 sigma of its application")


def resolve(
    name: str, given: Mapping[str, str], defaults: Mapping[str, str], file_options: tuple[str, ...]
) -> WorkloadOptions:
    """The given options over those of the workload and of its arrival process; all of them count as given.

    file_options: which of `file` and `cache` the workload takes. Raises UsageError for an unknown option, a value that
    cannot be read, and an option without meaning here.
    """
    where = f"workload {name}"
    read_options(WorkloadOptions, given, where)
    for option in ("file", "cache"):
        if option in given and option not in file_options:
            raise UsageError(f"{where}: {option} has no meaning here; leave it out")
    if "ttft" in given and "slowdown" in given:
        raise UsageError(f"{where}: ttft and slowdown both set the TTFT target; expected one of them")
    process = read_options(WorkloadOptions, {**defaults, **given}, where).arrivals
    shape = PROCESSES[process][1] if process in PROCESSES else {}
    for option in OF_ARRIVALS:
        if option in given and option not in shape:
            raise UsageError(f"{where}: {option} has no meaning for arrivals={process}; leave it out")
    replaced = {"slowdown": ("ttft",), "ttft": ("slowdown", "ttft_floor")}
    dropped = [other for option in given for other in replaced.get(option, ())]
    dropped += [option for option in OF_ARRIVALS if option not in shape]
    kept = {option: text for option, text in defaults.items() if option not in dropped}
    texts = {"estimate": "application", **shape, **kept, **given, "arrivals": process}
    if "slowdown" in texts:
        texts.setdefault("ttft_floor", "500ms")
    elif "ttft_floor" in texts:
        raise UsageError(f"{where}: ttft_floor has no meaning without slowdown; leave it out")
    return read_options(WorkloadOptions, texts, where)
