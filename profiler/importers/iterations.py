"""JSON lines with the work of each iteration request by request: what an engine's own hook can write.

    {"decode_contexts": [512, 31, 31], "chunks": [[256, 0], [64, 1024]], "latency_ms": 12.4, "time_s": 3.1}

decode_contexts: KV tokens each decode reads, its own token included. chunks: [chunk_tokens, prefix_tokens].
latency_ms: host wall clock from the end of the iteration before to the end of this one. time_s may be missing:
seconds by any clock; without it the lines are in the order of time.
"""

from __future__ import annotations

from ...files.records import Record, SkippedRows, is_whole, json_lines
from ...tables.batch import Batch
from .samples import Imported, LogFormat, LoggedIteration, ReadOptions, UnreadColumns

COLUMNS = ("decode_contexts", "chunks", "latency_ms", "time_s")


def read(path: str, options: ReadOptions, left_out: SkippedRows) -> Imported:
    """Totals by the rule of `Batch.point`. Raises UsageError, LogFormatError."""
    unread = UnreadColumns(COLUMNS)
    samples: list[LoggedIteration] = []
    timed = None
    for record in json_lines(path, left_out):
        if timed is None:
            timed = "time_s" in record.values
        unread.see(record)
        sample = sample_of(record, record.number("time_s") if timed else 0.0, left_out)
        if sample is not None:
            samples.append(sample)
    samples.sort(key=lambda sample: sample.started_s)
    return Imported(samples, "iteration", unread=unread.shown())


def sample_of(record: Record, started_s: float, left_out: SkippedRows) -> LoggedIteration | None:
    """The iteration of a line; an empty one is left out. Raises LogFormatError."""
    batch = _batch(record)
    latency_ms = record.duration_ms("latency_ms", "ms")
    if batch is None:
        left_out.add("neither decodes nor chunks", record.place)
        return None
    return LoggedIteration.of_batch(batch, latency_ms, started_s)


def _batch(record: Record) -> Batch | None:
    contexts, chunks = record.items("decode_contexts"), record.items("chunks")
    if not all(is_whole(context, 1) for context in contexts):
        raise record.wrong("decode_contexts", "whole numbers, 1 or more: a decode reads its own token")
    if not all(isinstance(c, list) and len(c) == 2 and is_whole(c[0], 1) and is_whole(c[1], 0) for c in chunks):
        raise record.wrong("chunks", "lists of two whole numbers: chunk tokens, 1 or more, and prefix tokens")
    if not contexts and not chunks:
        return None
    return Batch.with_chunks(contexts, [(c, u) for c, u in chunks])


FORMAT = LogFormat(read, "JSON lines with the contexts of the decodes and the chunks of each iteration", split="time")
