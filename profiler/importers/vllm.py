"""What the recorder inside vLLM writes (`chunkfit.integrations.vllm.RecordingScheduler`): JSON lines.

    {"chunkfit_record": 1, "fingerprint": {...}, "domain": {...}}
    {"decode_contexts": [512, 31], "chunks": [[256, 0]], "latency_ms": 12.4, "time_s": 3.1, "graph": "PIECEWISE"}

The first line of a file says which engine it was; files of one engine may be joined. The others are those of
`iterations`, time_s by the wall clock; graph is shown, not read. A decode of several tokens (speculation) stands as one
decode for each of them.
"""

from __future__ import annotations

from pydantic import ValidationError

from ...files.records import Record, SkippedRows, json_lines
from ...tables.fingerprint import Fingerprint
from .iterations import COLUMNS, sample_of
from .samples import Imported, LogFormat, LoggedIteration, ReadOptions, UnreadColumns

HEADER = "chunkfit_record"  # the key that tells a file's first line
RECORD_VERSION = 1


def read(path: str, options: ReadOptions, left_out: SkippedRows) -> Imported:
    """Raises UsageError, LogFormatError: no header first, one of another version, or of another engine."""
    unread = UnreadColumns(COLUMNS)
    samples: list[LoggedIteration] = []
    known: Fingerprint | None = None
    for record in json_lines(path, left_out):
        if HEADER in record.values or known is None:
            found = _engine(record)
            if known not in (None, found):
                raise record.wrong("fingerprint", "the engine of the lines before: join files of one engine only")
            known = found
            continue
        unread.see(record)
        sample = sample_of(record, record.number("time_s"), left_out)
        if sample is not None:
            samples.append(sample)
    samples.sort(key=lambda sample: sample.started_s)
    return Imported(samples, "iteration", known or Fingerprint(), unread.shown())


def _engine(record: Record) -> Fingerprint:
    if record.values.get(HEADER) != RECORD_VERSION:
        raise record.wrong(HEADER, f"{RECORD_VERSION}, in the first line")
    try:
        return Fingerprint.model_validate(record.values.get("fingerprint"))
    except ValidationError as error:
        raise record.wrong("fingerprint", "facts about device, model and engine") from error


FORMAT = LogFormat(read, "what chunkfit's recorder inside vLLM writes", split="time")
