"""What a study has played, one JSON line a cell, so that an interrupted one goes on where it was.

The first line says which sources played it: with others the same cell may have another report. A line that was cut
by a kill can only be the last; it is dropped. Anything else that does not read is damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from ...files.errors import RunReportError, UsageError
from ...files.jsonl import LockedLines, open_locked
from ...files.strict import Sha256, Strict, findings
from ..compiled import sources_digest
from ..run_report import RunReport
from .cell import Cell

ADVICE = "what was played before is kept: free space, then --resume"
BUSY = "another process is writing it; expected no other study there: wait for it or choose another --out"


class StudyHeader(Strict):
    format: Literal["chunkfit.study"] = "chunkfit.study"
    journal_version: Literal[1] = 1
    sources_sha256: Sha256


class StudyCell(Strict):
    cell: Cell
    report: RunReport


class Journal:
    """An open file and the reports that it holds. Made by `open_journal`."""

    def __init__(self, lines: LockedLines, reports: dict[Cell, RunReport]) -> None:
        self.reports = reports
        self._lines = lines

    def add(self, cell: Cell, report: RunReport) -> None:
        """On disk when this returns. Raises StorageError."""
        self._lines.append(StudyCell(cell=cell, report=report).model_dump_json())


@contextmanager
def open_journal(path: Path, *, resume: bool, overwrite: bool) -> Iterator[Journal]:
    """The journal at `path`, locked while in use.

    Raises UsageError where there is one and neither option says what to do with it, or where other sources wrote it;
    RunReportError naming the line for damage; StorageError where it cannot be written.
    """
    with suppress(OSError):  # opening the file says what is wrong
        path.parent.mkdir(parents=True, exist_ok=True)
    with open_locked(path, ADVICE, lambda: BUSY) as lines:
        data, first = path.read_bytes(), StudyHeader(sources_sha256=sources_digest()).model_dump_json()
        if data not in (b"", first.encode() + b"\n") and not (resume or overwrite):
            raise UsageError(
                f"{path}: there is a study already; expected a new place: --resume to go on with it, --overwrite to "
                "replace it, or another --out"
            )
        data = b"" if overwrite else data
        intact = data.rfind(b"\n") + 1
        header, reports = _read(data[:intact], path)
        lines.keep(intact)
        if header is None:
            lines.append(first)
        elif header.sources_sha256 != sources_digest():
            raise UsageError(
                f"{path}: was begun by other sources of the scheduler ({header.sources_sha256[:12]}, here "
                f"{sources_digest()[:12]}); expected the same, or its reports cannot be compared: go on with the "
                "release that began it, or --overwrite"
            )
        yield Journal(lines, reports)


def _read(data: bytes, path: Path) -> tuple[StudyHeader | None, dict[Cell, RunReport]]:
    header: StudyHeader | None = None
    reports: dict[Cell, RunReport] = {}
    for number, text in enumerate(data.splitlines(), 1):
        try:
            if number == 1:
                header = StudyHeader.model_validate_json(text)
            else:
                line = StudyCell.model_validate_json(text)
                reports[line.cell] = line.report
        except ValidationError as error:
            raise RunReportError(
                f"{path}, line {number}: {findings(error)}; expected a line that chunkfit wrote: restore the file, or "
                "--overwrite it"
            ) from error
    return header, reports
