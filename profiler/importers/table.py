"""Any table with a row per iteration: CSV, JSON lines or Parquet, its columns named by --map."""

from __future__ import annotations

from ...files.errors import UsageError
from ...files.records import MS_PER_UNIT, Record, SkippedRows, records_of
from .mapping import Expression, parse, selected, where_text
from .samples import Imported, LogFormat, LoggedIteration, ReadOptions, UnreadColumns


def read(path: str, options: ReadOptions, left_out: SkippedRows) -> Imported:
    """k is not read in rows without decodes, u not in rows without chunk tokens.

    chunks: how many chunks c is the sum of (1 where it is not said). order: a number that grows with time;
    without it the rows are in the order of the file.
    Raises UsageError, LogFormatError.
    """
    if options.unit not in MS_PER_UNIT:
        raise UsageError(f"--unit {options.unit!r}: expected the unit of the latencies: {', '.join(MS_PER_UNIT)}")
    columns = {name: parse(name, text) for name, text in options.mapping.items()}
    if not columns["latency"].columns:
        raise UsageError(f"--map latency={columns['latency'].text!r}: expected a column")
    used = {column for expression in columns.values() for column in expression.columns}
    unread = UnreadColumns(used | set(options.where))
    found: list[tuple[float, LoggedIteration]] = []
    for record in records_of(path, left_out):
        if not selected(record, options.where):
            left_out.add(f"other than {where_text(options.where)}", record.place)
            continue
        unread.see(record)
        stamp = float(columns["order"].value(record)) if "order" in columns else None
        sample = _sample(record, columns, MS_PER_UNIT[options.unit], stamp)
        if sample.n + sample.c:
            found.append((stamp or 0.0, sample))
        else:
            left_out.add("neither decodes nor chunk tokens", record.place)
    found.sort(key=lambda pair: pair[0])
    return Imported([sample for _, sample in found], "unknown", unread=unread.shown())


def _sample(record: Record, columns: dict[str, Expression], ms_per_unit: float, stamp: float | None) -> LoggedIteration:
    n, c = columns["n"].tokens(record), columns["c"].tokens(record)
    k = columns["k"].tokens(record, least=1, mean=True) if n else 0
    u = columns["u"].tokens(record) if c else 0
    latency_ms = float(columns["latency"].value(record)) * ms_per_unit
    if not latency_ms > 0:
        raise record.wrong(columns["latency"].columns[0], "a time above 0")
    chunks = columns["chunks"].tokens(record, least=1 if c else 0) if "chunks" in columns else 1
    return LoggedIteration.of_totals(n, k, c, u, latency_ms, chunks=chunks, stamp=stamp)


FORMAT = LogFormat(
    read,
    "any CSV, JSON lines or Parquet file with a row per iteration, its columns named by --map",
    split="points",
    must_say=("n", "k", "c", "u", "latency"),
    may_say=("chunks", "order"),
    columns=True,
    where=True,
)
