"""profile_table.csv of vllm-ascend's dynamic batch: ctx_len, d_num, chunk_size, cost.

Its scheduler compares cost with an SLO in ms and takes the largest chunk_size of a (ctx_len, d_num), the mean
context and number of the decodes. The file says neither what a cost is (one iteration, a mean) nor the prefix
before the chunk nor the device; --map u=0 states the prefix.
"""

from __future__ import annotations

from ...files.records import SkippedRows, csv_records
from ...tables.fingerprint import Fingerprint
from .mapping import parse_number
from .samples import Imported, LogFormat, LoggedIteration, ReadOptions, UnreadColumns


def read(path: str, options: ReadOptions, left_out: SkippedRows) -> Imported:
    """Raises UsageError, LogFormatError."""
    u = parse_number("u", options.mapping["u"])
    unread = UnreadColumns(("ctx_len", "d_num", "chunk_size", "cost"))
    samples = []
    for record in csv_records(path, left_out):
        unread.see(record)
        n, c = record.whole("d_num"), record.whole("chunk_size")
        k = record.whole("ctx_len", 1 if n else 0)
        latency_ms = record.duration_ms("cost", "ms")
        if n + c:
            samples.append(LoggedIteration.of_totals(n, k, c, u, latency_ms))
        else:
            left_out.add("neither decodes nor chunk tokens", record.place)
    return Imported(samples, "unknown", Fingerprint(engine="vllm-ascend"), unread.shown())


FORMAT = LogFormat(read, "profile_table.csv of vllm-ascend's dynamic batch", split="points", must_say=("u",))
