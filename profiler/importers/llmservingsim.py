"""attention.csv of LLMServingSim's profiler: one attention operator of one layer, in us, means of 3.

Operator data, not iterations: it can never certify a bound of iterations, and the fingerprint says what it is,
so that it is never taken for one. Device and model stand in meta.yaml beside it, for the user to say.
"""

from __future__ import annotations

from ...files.records import SkippedRows, csv_records
from ...tables.fingerprint import Fingerprint
from .samples import Imported, LogFormat, LoggedIteration, ReadOptions, UnreadColumns

COLUMNS = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us")
ENGINE = "vllm: the attention operator of one layer"


def read(path: str, options: ReadOptions, left_out: SkippedRows) -> Imported:
    """kv_decode is the context of each decode. Raises UsageError, LogFormatError."""
    unread = UnreadColumns(COLUMNS)
    samples = []
    for record in csv_records(path, left_out):
        unread.see(record)
        c, u = record.whole("prefill_chunk"), record.whole("kv_prefill")
        n = record.whole("n_decode")
        k = record.whole("kv_decode", 1 if n else 0)
        latency_ms = record.duration_ms("time_us", "us")
        if n + c:
            samples.append(LoggedIteration.of_totals(n, k, c, u, latency_ms))
        else:
            left_out.add("neither decodes nor chunk tokens", record.place)
    return Imported(samples, "mean:3", Fingerprint(engine=ENGINE), unread.shown())


FORMAT = LogFormat(read, "attention.csv of LLMServingSim (one operator of one layer)", split="points")
