"""`chunkfit validate`: is the table what it says, and does the data say so too?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .output import JsonFlag, Result, emit, escape, grid
from .table_lines import evidence_lines, verdict_lines

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..tables.document import Finding
    from ..tables.schema_v1 import TableV1


@dataclass(frozen=True)
class Validation(Result):
    """Findings about a table file, by itself or against a profile; `document` is None where it is no table."""

    table: Path
    profile: Path | None
    document: TableV1 | None
    findings: list[Finding]

    def data(self) -> dict[str, Any]:
        return {
            "table": str(self.table),
            "profile": None if self.profile is None else str(self.profile),
            "valid": not self.findings,
            "findings": [{"kind": f.kind, "where": f.where, "message": f.message} for f in self.findings],
        }

    def shown(self) -> Iterator[RenderableType]:
        for finding in self.findings:
            yield f"[red]{escape(str(finding))}[/]"
        if not self.findings and self.document is not None:
            alone = "file alone: structure and checksum"
            yield f"[green]valid[/] ({'file and profile: all figures recomputed' if self.profile else alone})"
            yield grid([*verdict_lines(self.document), *evidence_lines(self.document)])


def validate(
    table: Annotated[Path, typer.Argument(help="Cost table (JSON).")],
    profile: Annotated[
        Path | None, typer.Option(help="The profile it was fitted on: recompute every figure from it.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Check structure and checksum; with --profile recompute certificates and errors. Exit 1 on any finding.

    Example: chunkfit validate table.json --profile profile.parquet
    """
    if profile is None:
        from ..tables.check import validate_file

        document, findings = validate_file(table)
    else:
        from ..fitters.validate import validate_with_profile

        document, findings = validate_with_profile(table, profile)
    emit(Validation(table, profile, document, findings), as_json)
    if findings:
        raise typer.Exit(1)
