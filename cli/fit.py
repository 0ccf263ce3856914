"""`chunkfit fit`: a profile to a certified table."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from .output import JsonFlag, emit_data


def fit(
    profile: Annotated[list[Path], typer.Argument(help="Profile(s) of one device, model and engine (Parquet).")],
    out: Annotated[Path, typer.Option(help="Cost table to write.")] = Path("table.json"),
    fitter: Annotated[str, typer.Option(help="Estimator of the expected time; auto: the best of all.")] = "auto",
    coverage: Annotated[float, typer.Option(help="Share of iterations the bound must cover.")] = 0.99,
    confidence: Annotated[float, typer.Option(help="Confidence of that, over the drawing of the session.")] = 0.95,
    microbench: Annotated[
        Path | None,
        typer.Option(help="Results of `chunkfit microbench` on the same device, for the fitter roofline."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Fit expected time and bound, certify the bound, write the table.

    Example: chunkfit fit profile.parquet --out table.json
    """
    from ..fitters.fit import fit as fit_table
    from ..profiler.microbench.results import load
    from ..profiler.profile import Profile, concat, file_sha256
    from .evidence import by_traffic, evidence_lines, fitter_lines, summary_of, traffic_lines
    from .output import grid

    # A table of several files names none of them: it is checked against the file they were joined into.
    rows = Profile.load(profile[0]) if len(profile) == 1 else concat([Profile.load(path) for path in profile])
    sha = file_sha256(profile[0]) if len(profile) == 1 else None
    operators = load(microbench) if microbench is not None else None
    table = fit_table(
        rows, fitter=fitter, coverage=coverage, confidence=confidence, profile_sha256=sha, operators=operators
    )
    table.save(out)
    weighted = by_traffic(rows, table.document)
    lines = [*fitter_lines(table.document), *evidence_lines(table.document), *traffic_lines(weighted)]
    summary = summary_of(table.document) | {"by_traffic": asdict(weighted) if weighted else None}
    emit_data(summary, as_json, grid(lines), f"written: {out}")
