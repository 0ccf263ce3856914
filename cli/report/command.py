"""`chunkfit report`: a table and its evidence as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..output import JsonFlag, emit_data


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
    from ..exit_codes import escape
    from .concerns import Level, concerns
    from .evidence import gather
    from .write import save_report

    evidence = gather(table, profile)
    save_report(evidence, out)
    found = concerns(evidence)
    data = {
        "written": str(out),
        "bytes": out.stat().st_size,
        "valid": not evidence.findings,
        "concerns": [{"level": concern.level.value, "text": concern.text} for concern in found],
    }
    colour = {Level.WRONG: "red", Level.WARNING: "yellow", Level.UNKNOWN: "yellow", Level.NOTE: "dim"}
    shown = [f"[{colour[concern.level]}]{concern.level.value}[/] {escape(concern.text)}" for concern in found]
    emit_data(data, as_json, *shown, f"written: {out}")
    if evidence.findings:
        raise typer.Exit(1)
