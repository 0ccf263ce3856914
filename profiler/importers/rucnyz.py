"""JSON of the rucnyz fork of vLLM (branch pd_exp): a grid of mixed iterations, and steps of a live scheduler.

Grid (`config`, `results`): means of `num_iterations` whole iterations; no prefix before the chunk, decodes of one
context. A batch above the engine's token budget was cut by it, so its row times another batch: left out.

Live (`stats`): `timestamp` is the call of the scheduler in seconds, so an iteration takes until the next call
(`elapsed_us` is the scheduler's own time). A call that schedules nothing holds an idle gap, and the last one has
no end: left out. The log says neither contexts nor prefixes; --map k=600,u=0 states them.
"""

from __future__ import annotations

from ...files.records import Record, SkippedRows, json_document, json_items
from ...tables.fingerprint import Fingerprint
from .mapping import parse_number
from .samples import Imported, LogFormat, LoggedIteration, ReadOptions, UnreadColumns

GRID_COLUMNS = ("num_decode", "num_prefill", "prefill_chunk_size", "decode_context_len", "total_tokens", "mean_time_ms")
LIVE_COLUMNS = ("timestamp", "prefill_tokens", "decode_tokens", "total_tokens", "num_scheduled_reqs")


def read_grid(path: str, options: ReadOptions, left_out: SkippedRows) -> Imported:
    """Raises UsageError, LogFormatError."""
    document = json_document(path)
    config = document.within("config")
    budget = config.whole("max_num_batched_tokens", 1)
    unread = UnreadColumns(GRID_COLUMNS)
    samples = []
    for record in json_items(document, "results"):
        unread.see(record)
        n, chunks = record.whole("num_decode"), record.whole("num_prefill")
        c = chunks * record.whole("prefill_chunk_size", 1 if chunks else 0)
        k = record.whole("decode_context_len", 1 if n else 0)
        latency_ms = record.duration_ms("mean_time_ms", "ms")
        _check_total(record, n + c)
        if n + c > budget:
            left_out.add(f"above the engine's budget of {budget:,} tokens: another batch was timed", record.place)
        elif n + c:
            samples.append(LoggedIteration.of_totals(n, k, c, 0, latency_ms, chunks=chunks))
        else:
            left_out.add("nothing scheduled", record.place)
    known = Fingerprint(
        model_name=config.text("model"),
        dtype=config.text("dtype"),
        engine="vllm",
        capture_sizes=() if config.values.get("enforce_eager") is True else None,
    )
    return Imported(samples, f"mean:{config.whole('num_iterations', 1)}", known, unread.shown())


def read_live(path: str, options: ReadOptions, left_out: SkippedRows) -> Imported:
    """Raises UsageError, LogFormatError."""
    k, u = parse_number("k", options.mapping["k"], 1), parse_number("u", options.mapping["u"])
    calls = json_items(json_document(path), "stats")
    unread = UnreadColumns(LIVE_COLUMNS)
    samples: list[LoggedIteration] = []
    for index, call in enumerate(calls):
        unread.see(call)
        n, c = call.whole("decode_tokens"), call.whole("prefill_tokens")
        _check_total(call, n + c)
        if index + 1 == len(calls):
            left_out.add("the last call: its end is not known", call.place)
        elif not n + c:
            left_out.add("nothing scheduled", call.place)
        else:
            started_s = call.number("timestamp")
            seconds = calls[index + 1].number("timestamp") - started_s
            if not seconds > 0:
                raise calls[index + 1].wrong("timestamp", f"later than {call.place} ({started_s})")
            chunks = call.whole("num_scheduled_reqs", n) - n
            samples.append(LoggedIteration.of_totals(n, k, c, u, 1000 * seconds, chunks=chunks, started_s=started_s))
    return Imported(samples, "iteration", Fingerprint(engine="vllm"), unread.shown())


def _check_total(record: Record, expected: int) -> None:
    if record.whole("total_tokens") != expected:
        raise record.wrong("total_tokens", f"{expected}, decodes and chunk tokens together")


GRID = LogFormat(read_grid, "results.json of the rucnyz vLLM fork: means of whole mixed iterations", split="points")
LIVE = LogFormat(
    read_live, "live scheduler steps of the rucnyz vLLM fork, by their timestamps", split="time", must_say=("k", "u")
)
