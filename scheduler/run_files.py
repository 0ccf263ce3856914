"""A run as a folder: its report, its iterations and its requests.

Columns of `iterations.csv` and `requests.csv` are the fields of ITERATION, WORKLOAD and RESULT; an empty cell is nan.
Logs of other engines are read by the same columns, of which few are required.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..files.errors import LogFormatError
from ..files.records import Record
from ..files.writing import cannot_write, write_atomically
from .dtypes import ITERATION, RESULT
from .run_report import RunReport
from .workloads.workload import empty_requests

Rows = NDArray[Any]
REPORT, ITERATIONS, REQUESTS = "run.json", "iterations.csv", "requests.csv"
# Columns that `diagnose` needs.
ITERATION_COLUMNS = ("start_ms", "latency_ms", "decodes", "chunk_tokens", "queued")
REQUEST_COLUMNS = ("arrival_ms", "prompt_tokens", "output_tokens", "first_token_ms")


def save_run(folder: Path, report: RunReport, requests: Rows, results: Rows, log: Rows) -> None:
    """Write the three files. Raises StorageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    report.save(folder / REPORT)
    write_atomically(folder / ITERATIONS, _csv(log).encode())
    write_atomically(folder / REQUESTS, _csv(requests, results).encode())


def _csv(*parts: Rows) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([name for part in parts for name in part.dtype.names or ()])
    for rows in zip(*(part.tolist() for part in parts), strict=True):
        writer.writerow("" if value != value else value for row in rows for value in row)
    return out.getvalue()


def iterations_of(records: Iterable[Record]) -> Rows:
    """Rows of ITERATION with ITERATION_COLUMNS filled.

    Raises LogFormatError for an impossible value, rows out of order, and a log without rows.
    """
    rows: list[dict[str, float]] = []
    source = "the iterations"
    for record in records:
        start_ms, source = record.number("start_ms"), record.source
        if rows and start_ms < rows[-1]["start_ms"]:
            raise record.wrong("start_ms", f"rows in order of time, {rows[-1]['start_ms']:g} or more")
        counts = {name: record.whole(name) for name in ITERATION_COLUMNS[2:]}
        rows.append({"start_ms": start_ms, "latency_ms": record.duration_ms("latency_ms", "ms"), **counts})
    if not rows:
        raise LogFormatError(f"{source}: no row; expected at least one iteration")
    return _filled(np.zeros(len(rows), ITERATION), rows)


def requests_of(records: Iterable[Record]) -> tuple[Rows, Rows]:
    """(WORKLOAD, RESULT) with REQUEST_COLUMNS filled, and cached_tokens, tpot_ms and p99_gap_ms where a row has them.

    An empty first_token_ms: the request got no token. Raises LogFormatError as `iterations_of`.
    """
    rows: list[dict[str, float]] = []
    source = "the requests"
    for record in records:
        arrival_ms, source = record.number("arrival_ms"), record.source
        if rows and arrival_ms < rows[-1]["arrival_ms"]:
            raise record.wrong("arrival_ms", f"rows in order of arrival, {rows[-1]['arrival_ms']:g} or more")
        row: dict[str, float] = {name: record.whole(name, 1) for name in ("prompt_tokens", "output_tokens")}
        row["cached_tokens"] = record.whole("cached_tokens") if "cached_tokens" in record.values else 0
        if row["cached_tokens"] >= row["prompt_tokens"]:
            prompt = f"the {row['prompt_tokens']} prompt tokens"
            raise record.wrong("cached_tokens", f"less than {prompt}: the last is always computed")
        if "first_token_ms" not in record.values:
            raise record.wrong("first_token_ms", "a time, or nothing for a request without a token")
        for name, least in (("first_token_ms", arrival_ms), ("tpot_ms", 0.0), ("p99_gap_ms", 0.0)):
            row[name] = record.number(name, least) if record.says(name) else np.nan
        rows.append(row | {"arrival_ms": arrival_ms})
    if not rows:
        raise LogFormatError(f"{source}: no row; expected at least one request")
    return _filled(empty_requests(len(rows)), rows), _filled(np.zeros(len(rows), RESULT), rows)


def _filled(array: Rows, rows: Sequence[Mapping[str, float]]) -> Rows:
    """The array with its fields that the rows have."""
    for name in set(array.dtype.names or ()) & rows[0].keys():
        array[name] = [row[name] for row in rows]
    return array
