"""Forward-pass metrics traces of NVIDIA Dynamo: schema dynamo.fpm.trace.v1, payload version 1, JSON lines (.gz).

Fields as the trace reference of Dynamo 1.7 and AIConfigurator's ScheduledRequestMetrics document them: wall_time
in seconds; sum_prefill_tokens computed in this pass, sum_prefill_kv_tokens already computed before it;
sum_decode_kv_tokens, the KV length over the decodes. Backends differ by the decode's own token there; it is
taken as it stands, so k is at most one token too small. A line may be the whole envelope, its `event`, or the
payload. The records of one counter_id with several dp_rank are one pass; passes of several workers are taken as
passes of one engine each.
"""

from __future__ import annotations

from ...files.records import Record, SkippedRows, json_lines
from .samples import Imported, LogFormat, LoggedIteration, ReadOptions

SCHEMA = "dynamo.fpm.trace.v1"
VERSION = 1


def read(path: str, options: ReadOptions, left_out: SkippedRows) -> Imported:
    """A pass a line, in the order they were observed. Raises UsageError, LogFormatError."""
    samples: list[LoggedIteration] = []
    restarts: dict[tuple[int, int], int] = {}
    for record in json_lines(path, left_out):
        event = record.within("event") if "event" in record.values else record
        if "schema" in event.values and event.values["schema"] != SCHEMA:
            raise event.wrong("schema", SCHEMA)
        metrics = event.within("fpm") if "fpm" in event.values else event
        observed_s = event.number("observed_at_unix_ms") / 1000 if "observed_at_unix_ms" in event.values else 0.0
        sample = _sample(metrics, observed_s, _pass_key(metrics, restarts), left_out)
        if sample is not None:
            samples.append(sample)
    samples.sort(key=lambda sample: sample.started_s)
    return Imported(samples, "iteration")


def _pass_key(metrics: Record, restarts: dict[tuple[int, int], int]) -> tuple[int, int] | None:
    """(restart, counter) of a record that names its rank; a counter that a rank repeats began again."""
    if not {"counter_id", "dp_rank"} <= metrics.values.keys():
        return None
    counter, rank = metrics.whole("counter_id"), metrics.whole("dp_rank")
    restarts[counter, rank] = restarts.get((counter, rank), -1) + 1
    return restarts[counter, rank], counter


def _sample(
    metrics: Record, observed_s: float, pass_key: tuple[int, int] | None, left_out: SkippedRows
) -> LoggedIteration | None:
    if metrics.values.get("version") != VERSION:
        raise metrics.wrong("version", str(VERSION))
    work = metrics.within("scheduled_requests")
    n, c = work.whole("num_decode_requests"), work.whole("sum_prefill_tokens")
    context, prefix = work.whole("sum_decode_kv_tokens"), work.whole("sum_prefill_kv_tokens")
    unequal, chunks = work.number("var_decode_kv_tokens", 0) > 0, work.whole("num_prefill_requests")
    if (c > 0) != (chunks > 0):
        raise work.wrong("num_prefill_requests", f"none without sum_prefill_tokens ({c}) and at least one with it")
    if not n + c:
        left_out.add("nothing scheduled", metrics.place)
        return None
    if not metrics.number("wall_time", 0):
        left_out.add("wall_time 0", metrics.place)
        return None
    latency_ms = metrics.duration_ms("wall_time", "s")
    k = max(1, -(-context // n)) if n else 0
    return LoggedIteration.of_totals(
        n, k, c, prefix, latency_ms, unequal=unequal, chunks=chunks, started_s=observed_s, pass_key=pass_key
    )


FORMAT = LogFormat(read, "NVIDIA Dynamo's forward-pass metrics trace (dynamo.fpm.trace.v1)", split="time")
