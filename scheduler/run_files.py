"""A run as a folder: its report, its iterations and its requests.

Columns of `iterations.csv` and `requests.csv` are the fields of ITERATION, WORKLOAD and RESULT; an empty cell is nan.
Logs of other engines are read by the same columns, of which few are required.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..files.errors import LogFormatError
from ..files.record import Record
from ..files.writing import cannot_write, write_atomically
from .dtypes import ITERATION, RESULT, WORKLOAD
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
    rows: list[tuple[float, float, int, int, int]] = []
    source = "the iterations"
    for record in records:
        start_ms, source = record.number("start_ms"), record.source
        if rows and start_ms < rows[-1][0]:
            raise record.wrong("start_ms", f"rows in order of time, {rows[-1][0]:g} or more")
        decodes, chunk_tokens, queued = (record.whole(name) for name in ITERATION_COLUMNS[2:])
        rows.append((start_ms, record.duration_ms("latency_ms", "ms"), decodes, chunk_tokens, queued))
    iterations = np.zeros(len(_some(rows, source, "iteration")), ITERATION)
    for name, column in zip(ITERATION_COLUMNS, zip(*rows, strict=True), strict=True):
        iterations[name] = column
    return iterations


def requests_of(records: Iterable[Record]) -> tuple[Rows, Rows]:
    """(WORKLOAD, RESULT) with REQUEST_COLUMNS filled, and cached_tokens, tpot_ms and p99_gap_ms where a row has them.

    An empty first_token_ms: the request got no token. Raises LogFormatError as `iterations_of`.
    """
    rows: list[tuple[float, int, int, float, int, float, float]] = []
    source = "the requests"
    for record in records:
        arrival_ms, source = record.number("arrival_ms"), record.source
        if rows and arrival_ms < rows[-1][0]:
            raise record.wrong("arrival_ms", f"rows in order of arrival, {rows[-1][0]:g} or more")
        prompt, cached = record.whole("prompt_tokens", 1), 0
        if "cached_tokens" in record.values and (cached := record.whole("cached_tokens")) >= prompt:
            raise record.wrong("cached_tokens", f"less than the {prompt} prompt tokens: the last is always computed")
        if "first_token_ms" not in record.values:
            raise record.wrong("first_token_ms", "a time, or nothing for a request without a token")
        rows.append(
            (
                arrival_ms,
                prompt,
                record.whole("output_tokens", 1),
                _number_or_nan(record, "first_token_ms", arrival_ms),
                cached,
                _number_or_nan(record, "tpot_ms", 0),
                _number_or_nan(record, "p99_gap_ms", 0),
            )
        )
    requests, results = empty_requests(len(_some(rows, source, "request"))), np.zeros(len(rows), RESULT)
    names = (*REQUEST_COLUMNS, "cached_tokens", "tpot_ms", "p99_gap_ms")
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        (requests if name in (WORKLOAD.names or ()) else results)[name] = column
    return requests, results


def _number_or_nan(record: Record, column: str, least: float) -> float:
    """nan where the row has no value."""
    return record.number(column, least) if record.says(column) else np.nan


def _some(rows: list[Any], source: str, what: str) -> list[Any]:
    if not rows:
        raise LogFormatError(f"{source}: no row; expected at least one {what}")
    return rows
