"""What a study has played, one JSON line a cell, so that an interrupted one goes on where it was.

The first line says which sources played it: with others the same cell may have another report. A line that was cut
by a kill can only be the last; it is dropped. Anything else that does not read is damage.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from ...files.errors import ChunkfitError, RunReportError, StorageError, UsageError
from ...files.strict import Sha256, Strict, findings
from ...files.writing import append
from ..compiled import sources_digest
from ..run_report import RunReport
from .cell import Cell


class Header(Strict):
    format: Literal["chunkfit.study"] = "chunkfit.study"
    journal_version: Literal[1] = 1
    sources_sha256: Sha256


class Line(Strict):
    cell: Cell
    report: RunReport


class Journal:
    """An open file and the reports that it holds. Made by `open_journal`."""

    def __init__(self, path: Path, descriptor: int, reports: dict[Cell, RunReport]) -> None:
        self.reports = reports
        self._path, self._descriptor = path, descriptor

    def add(self, cell: Cell, report: RunReport) -> None:
        """On disk when this returns. Raises StorageError."""
        _append(self._descriptor, self._path, Line(cell=cell, report=report))


@contextmanager
def open_journal(path: Path, *, resume: bool, overwrite: bool) -> Iterator[Journal]:
    """The journal at `path`, locked while in use.

    Raises UsageError where there is one and neither option says what to do with it, or where other sources wrote it;
    RunReportError naming the line for damage; StorageError where it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    except OSError as error:
        raise _cannot_write(path, error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ChunkfitError(
                f"{path}: another process is writing it; expected no other study there: wait for it or choose another "
                "--out"
            ) from None
        data = path.read_bytes()
        if data not in (b"", _bytes(Header(sources_sha256=sources_digest()))) and not (resume or overwrite):
            raise UsageError(
                f"{path}: there is a study already; expected a new place: --resume to go on with it, --overwrite to "
                "replace it, or another --out"
            )
        data = b"" if overwrite else data
        intact = data.rfind(b"\n") + 1
        header, reports = _read(data[:intact], path)
        os.ftruncate(descriptor, intact)
        if header is None:
            _append(descriptor, path, Header(sources_sha256=sources_digest()))
        elif header.sources_sha256 != sources_digest():
            raise UsageError(
                f"{path}: was begun by other sources of the scheduler ({header.sources_sha256[:12]}, here "
                f"{sources_digest()[:12]}); expected the same, or its reports cannot be compared: go on with the "
                "release that began it, or --overwrite"
            )
        yield Journal(path, descriptor, reports)
    finally:
        os.close(descriptor)


def _read(data: bytes, path: Path) -> tuple[Header | None, dict[Cell, RunReport]]:
    header: Header | None = None
    reports: dict[Cell, RunReport] = {}
    for number, text in enumerate(data.splitlines(), 1):
        try:
            if number == 1:
                header = Header.model_validate_json(text)
            else:
                line = Line.model_validate_json(text)
                reports[line.cell] = line.report
        except ValidationError as error:
            raise RunReportError(
                f"{path}, line {number}: {findings(error)}; expected a line that chunkfit wrote: restore the file, or "
                "--overwrite it"
            ) from error
    return header, reports


def _bytes(line: Header | Line) -> bytes:
    return line.model_dump_json().encode() + b"\n"


def _append(descriptor: int, path: Path, line: Header | Line) -> None:
    try:
        append(descriptor, _bytes(line))
    except OSError as error:
        raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"{path}: cannot be written ({error.strerror or error}); what was played before is kept: free space, then "
        "--resume"
    )
