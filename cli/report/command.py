"""`chunkfit report`: a table and its evidence as one page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..output import JsonFlag, Result, emit, escape

if TYPE_CHECKING:
    from .concerns import Concern

COLOURS = {"wrong": "red", "warning": "yellow", "unknown": "yellow", "note": "dim"}


@dataclass(frozen=True)
class WrittenReport(Result):
    """A written page and what it warns of."""

    written: Path
    bytes: int
    valid: bool
    concerns: tuple[Concern, ...]

    def shown(self) -> Iterator[str]:
        for concern in self.concerns:
            yield f"[{COLOURS[concern.level]}]{concern.level.value}[/] {escape(concern.text)}"
        yield f"written: {self.written}"


def report(
    table: Annotated[Path, typer.Argument(help="Cost table (JSON).")],
    profile: Annotated[Path, typer.Option(help="The profile it was fitted on (Parquet).")],
    out: Annotated[Path, typer.Option(help="Page to write (HTML).")] = Path("report.html"),
    as_json: JsonFlag = False,
) -> None:
    """Validate a table against its profile and write what it promises, and what is wrong, as one HTML page.

    Exit 1 when validation finds anything; the page is written all the same, and says so.

    Example: chunkfit report table.json --profile profile.parquet --out report.html
    """
    from .concerns import concerns
    from .evidence import gather
    from .write import save_report

    evidence = gather(table, profile)
    save_report(evidence, out)
    emit(WrittenReport(out, out.stat().st_size, not evidence.findings, tuple(concerns(evidence))), as_json)
    if evidence.findings:
        raise typer.Exit(1)
