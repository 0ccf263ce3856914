"""`chunkfit validate`: is the table what it says, and does the data say so too?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .output import JsonFlag, emit_data


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
    from rich.markup import escape

    from .evidence import evidence_lines
    from .output import grid

    if profile is None:
        from ..tables.check import validate_file

        document, findings = validate_file(table)
    else:
        from ..fitters.validate import validate_with_profile

        document, findings = validate_with_profile(table, profile)
    data = {
        "table": str(table),
        "profile": None if profile is None else str(profile),
        "valid": not findings,
        "findings": [{"kind": f.kind, "where": f.where, "message": f.message} for f in findings],
    }
    shown = [f"[red]{escape(str(finding))}[/]" for finding in findings]
    if not findings and document is not None:
        scope = "file alone: structure and checksum" if profile is None else "file and profile: all figures recomputed"
        shown = [f"[green]valid[/] ({scope})"]
        emit_data(data, as_json, *shown, grid(evidence_lines(document)))
        return
    emit_data(data, as_json, *shown)
    raise typer.Exit(1)
