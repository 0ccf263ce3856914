"""Records: rows of CSV, JSON lines and Parquet files, each with its place, read by typed methods.

A typed read names place and column when a value is impossible. A logger that was killed leaves a last line that is cut.
That line alone is skipped, and counted: a CSV line without a line break (it may be cut inside a number), or a JSON line
without one that is no whole object. Any other line that cannot be read is an error.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeGuard

from .errors import LogFormatError, MissingExtraError, UsageError

MS_PER_UNIT = {"us": 1e-3, "ms": 1.0, "s": 1e3}  # units of time that logs hold
MOST = 10**9  # tokens or requests that an iteration may have; more is no iteration, and no int64 after products
_LARGEST = 1e15
_WHOLE = re.compile(r"[+-]?[0-9]{1,10}(?:\.0*)?")


@dataclass(frozen=True, slots=True)
class Record:
    """values by column. place: as a person finds it (`line 17`, `row 17`, `results[17]`). inside: the JSON
    object that the values are in, for the names in messages (`fpm.scheduled_requests.`), or empty.
    """

    source: str
    place: str
    values: Mapping[str, Any]
    inside: str = ""

    def wrong(self, column: str, expected: str) -> LogFormatError:
        """The error for the value of `column`."""
        where = f"{self.source}: {self.place}, column {self.inside}{column}"
        if column not in self.values:
            there = _short(", ".join(self.values))
            return LogFormatError(f"{where}: not there; expected {expected} (found {there}): is it of this format?")
        found = _short(repr(self.values[column]))
        return LogFormatError(f"{where}: {found}; expected {expected}: correct the row or remove it")

    def says(self, column: str) -> bool:
        """Whether there is a value: no empty cell and no NaN."""
        value = self.values.get(column)
        return value is not None and value == value and str(value).strip().lower() not in ("", "nan")

    def whole(self, column: str, least: int = 0) -> int:
        """An integer from `least` to MOST; text and floats that are whole numbers count. Raises LogFormatError."""
        value = self.values.get(column)
        if isinstance(value, str):
            value = int(value.strip().split(".")[0]) if _WHOLE.fullmatch(value.strip()) else None
        elif isinstance(value, float):
            value = int(value) if value.is_integer() else None
        if not is_whole(value, least):
            raise self.wrong(column, f"a whole number, {least} or more (at most {MOST:,})")
        return value

    def number(self, column: str, least: float = -math.inf) -> float:
        """A number of `least` or more, at most 1e15 either way. Raises LogFormatError."""
        value = self.values.get(column)
        try:
            number = math.nan if isinstance(value, bool) or value is None else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not (abs(number) <= _LARGEST and number >= least):
            raise self.wrong(column, "a finite number" + (f", {least:g} or more" if math.isfinite(least) else ""))
        return number

    def duration_ms(self, column: str, unit: str) -> float:
        """A time above 0 in ms; `unit` is what the log holds. Raises LogFormatError."""
        milliseconds = self.number(column) * MS_PER_UNIT[unit]
        if not milliseconds > 0:
            raise self.wrong(column, f"a time above 0 {unit}")
        return milliseconds

    def text(self, column: str) -> str:
        """Text that is not empty. Raises LogFormatError."""
        value = self.values.get(column)
        if not isinstance(value, str) or not value:
            raise self.wrong(column, "text")
        return value

    def items(self, column: str) -> list[Any]:
        """A JSON list. Raises LogFormatError."""
        value = self.values.get(column)
        if not isinstance(value, list):
            raise self.wrong(column, "a list")
        return value

    def within(self, column: str) -> Record:
        """The JSON object in `column` as a record of its own. Raises LogFormatError."""
        value = self.values.get(column)
        if not isinstance(value, dict):
            raise self.wrong(column, "an object")
        return Record(self.source, self.place, value, f"{self.inside}{column}.")


class SkippedRows:
    """Rows that are no timed iteration, counted by reason, with the place of the first."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, str]] = {}

    def add(self, reason: str, place: str) -> None:
        count, first = self._found.get(reason, (0, place))
        self._found[reason] = (count + 1, first)

    def counts(self) -> dict[str, int]:
        return {reason: count for reason, (count, _) in self._found.items()}

    def lines(self) -> list[str]:
        """For people: `3 rows: nothing scheduled (first: line 17)`."""
        return [f"{count:,} rows: {reason} (first: {first})" for reason, (count, first) in self._found.items()]


def is_whole(value: object, least: int) -> TypeGuard[int]:
    """Whether a value is an integer from `least` to MOST."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= MOST


def _short(text: str) -> str:
    return text if len(text) <= 120 else text[:117] + "..."


CUT = "the last line is cut off"


def records_of(path: str, skipped: SkippedRows) -> Iterator[Record]:
    """Rows by the file's ending. Raises UsageError for an unknown one, else see the functions below."""
    name = path.removesuffix(".gz")
    for ending, read in BY_ENDING.items():
        if name.endswith(ending) and not (read is parquet_records and name != path):
            return read(path, skipped)
    raise UsageError(f"{path}: cannot tell what it holds; expected a name that ends in {', '.join(BY_ENDING)}")


def csv_records(path: str, skipped: SkippedRows) -> Iterator[Record]:
    """Rows of a CSV file with a header. Raises UsageError, LogFormatError."""
    lines = _Lines(path, skipped)
    reader = csv.reader(lines, strict=True)
    header: list[str] = []
    try:
        header = next(reader, [])
        if not header or len(set(header)) != len(header):
            raise LogFormatError(f"{path}: line 1: {header or 'no line'}; expected a header of different column names")
        for cells in reader:
            place = f"line {reader.line_num}"
            if not lines.ended:
                skipped.add(CUT, place)
            elif cells:
                if len(cells) != len(header):
                    raise LogFormatError(
                        f"{path}: {place}: {len(cells)} values; expected {len(header)} ({', '.join(header)}): correct "
                        "the row or remove it"
                    )
                yield Record(path, place, dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        if lines.ended:
            raise LogFormatError(f"{path}: line {reader.line_num}: {error}; expected comma-separated values") from error
        skipped.add(CUT, f"line {reader.line_num}")


def json_lines(path: str, skipped: SkippedRows) -> Iterator[Record]:
    """The object of each line; empty lines are passed over. Raises UsageError, LogFormatError."""
    lines = _Lines(path, skipped)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            if not lines.ended:
                skipped.add(CUT, f"line {number}")
                return
            raise LogFormatError(f"{path}: line {number}: not JSON ({error}); expected one object a line") from error
        if not isinstance(value, dict):
            raise LogFormatError(f"{path}: line {number}: a {type(value).__name__}; expected one object a line")
        yield Record(path, f"line {number}", value)


def json_document(path: str) -> Record:
    """The one object of a JSON file. Raises UsageError, LogFormatError."""
    try:
        value = json.loads("".join(_Lines(path, SkippedRows())), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise LogFormatError(f"{path}: not JSON ({error}); expected one object: is the file whole?") from error
    if not isinstance(value, dict):
        raise LogFormatError(f"{path}: a {type(value).__name__}; expected one object")
    return Record(path, "top level", value)


def json_items(document: Record, column: str) -> list[Record]:
    """The objects of the list in `column`, placed as `column[17]`. Raises LogFormatError."""
    records = []
    for index, value in enumerate(document.items(column)):
        place = f"{document.inside}{column}[{index}]"
        if not isinstance(value, dict):
            raise LogFormatError(f"{document.source}: {place}: a {type(value).__name__}; expected an object")
        records.append(Record(document.source, place, value))
    return records


def parquet_records(path: str, skipped: SkippedRows) -> Iterator[Record]:
    """Rows of a Parquet file, counted from 0. Raises UsageError, LogFormatError, MissingExtraError."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("Parquet needs pyarrow, which is not installed: pip install 'chunkfit[fit]'") from error
    row = 0
    try:
        with Path(path).open("rb") as file:
            for batch in pq.ParquetFile(file).iter_batches():
                for values in batch.to_pylist():
                    yield Record(path, f"row {row} (from 0)", values)
                    row += 1
    except pa.ArrowException as error:
        raise LogFormatError(f"{path}: not a readable Parquet file ({str(error).splitlines()[0]})") from error
    except OSError as error:
        raise _unreadable(path, error) from error


BY_ENDING: dict[str, Callable[[str, SkippedRows], Iterator[Record]]] = {
    ".csv": csv_records,
    ".jsonl": json_lines,
    ".ndjson": json_lines,
    ".parquet": parquet_records,
}


class _Lines:
    """Lines of a UTF-8 file, plain or .gz, with their ends. ended: whether the last one given has one."""

    def __init__(self, path: str, skipped: SkippedRows) -> None:
        self._path, self._skipped = path, skipped
        self._number, self.ended = 0, True
        self._given = self._lines()

    def __iter__(self) -> Iterator[str]:
        return self._given

    def _lines(self) -> Iterator[str]:
        try:
            with _open(self._path) as file:
                for line in file:
                    self._number += 1
                    self.ended = line.endswith(("\n", "\r"))
                    yield line
        except EOFError:  # a .gz whose writer was killed; its whole lines were given
            self._skipped.add("the compressed file is cut off", f"after line {self._number}")
        except UnicodeDecodeError as error:
            raise LogFormatError(f"{self._path}: after line {self._number}: not UTF-8 text ({error})") from error
        except (gzip.BadGzipFile, zlib.error) as error:
            raise LogFormatError(f"{self._path}: after line {self._number}: not a readable .gz ({error})") from error
        except OSError as error:
            raise _unreadable(self._path, error) from error


def _open(path: str) -> IO[str]:
    if path.endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return Path(path).open(encoding="utf-8-sig", newline="")


def _unreadable(path: str, error: OSError) -> UsageError:
    return UsageError(f"{path}: cannot be read ({error.strerror or error}); expected a log: check the path")


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")
