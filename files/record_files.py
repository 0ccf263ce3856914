"""Rows of CSV, JSON lines and Parquet files, one by one, each with its place.

A logger that was killed leaves a last line that is cut. It alone is left out, and counted: a CSV line that does
not end in a line break (it may be cut inside a number), a JSON line that does not and is no whole object. Any
other line that cannot be read is an error.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from .errors import LogFormatError, MissingExtraError, UsageError
from .record import LeftOut, Record

CUT = "the last line is cut off"


def records_of(path: str, left_out: LeftOut) -> Iterator[Record]:
    """Rows by the file's ending. Raises UsageError for an unknown one, else see the functions below."""
    name = path.removesuffix(".gz")
    for ending, read in BY_ENDING.items():
        if name.endswith(ending) and not (read is parquet_records and name != path):
            return read(path, left_out)
    raise UsageError(f"{path}: cannot tell what it holds; expected a name that ends in {', '.join(BY_ENDING)}")


def csv_records(path: str, left_out: LeftOut) -> Iterator[Record]:
    """Rows of a CSV file with a header. Raises UsageError, LogFormatError."""
    lines = _Lines(path, left_out)
    reader = csv.reader(lines, strict=True)
    header: list[str] = []
    try:
        header = next(reader, [])
        if not header or len(set(header)) != len(header):
            raise LogFormatError(f"{path}: line 1: {header or 'no line'}; expected a header of different column names")
        for cells in reader:
            place = f"line {reader.line_num}"
            if not lines.ended:
                left_out.add(CUT, place)
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
        left_out.add(CUT, f"line {reader.line_num}")


def json_lines(path: str, left_out: LeftOut) -> Iterator[Record]:
    """The object of each line; empty lines are passed over. Raises UsageError, LogFormatError."""
    lines = _Lines(path, left_out)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            if not lines.ended:
                left_out.add(CUT, f"line {number}")
                return
            raise LogFormatError(f"{path}: line {number}: not JSON ({error}); expected one object a line") from error
        if not isinstance(value, dict):
            raise LogFormatError(f"{path}: line {number}: a {type(value).__name__}; expected one object a line")
        yield Record(path, f"line {number}", value)


def json_document(path: str) -> Record:
    """The one object of a JSON file. Raises UsageError, LogFormatError."""
    try:
        value = json.loads("".join(_Lines(path, LeftOut())), parse_constant=_no_number)
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


def parquet_records(path: str, left_out: LeftOut) -> Iterator[Record]:
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


BY_ENDING: dict[str, Callable[[str, LeftOut], Iterator[Record]]] = {
    ".csv": csv_records,
    ".jsonl": json_lines,
    ".ndjson": json_lines,
    ".parquet": parquet_records,
}


class _Lines:
    """Lines of a UTF-8 file, plain or .gz, with their ends. ended: whether the last one given has one."""

    def __init__(self, path: str, left_out: LeftOut) -> None:
        self._path, self._left_out = path, left_out
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
            self._left_out.add("the compressed file is cut off", f"after line {self._number}")
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
