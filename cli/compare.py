"""`chunkfit compare`: is the device still the one that was measured?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .output import JsonFlag, emit_data

if TYPE_CHECKING:
    from rich.table import Table

    from ..fitters.compare import Comparison, SceneDifference, Side


def compare(
    left: Annotated[Path, typer.Argument(help="Cost table (JSON) or profile (Parquet): what is expected.")],
    right: Annotated[Path, typer.Argument(help="Cost table or profile to hold against it.")],
    tolerance: Annotated[
        str, typer.Option(help="Drift: in some scene a tenth of the points differ by more than this.")
    ] = "5%",
    as_json: JsonFlag = False,
) -> None:
    """Two tables, two profiles, or a table and a profile: where they differ, fingerprints first. Exit 1 on drift.

    Two tables: expected times at the nodes that either measured. Two profiles: medians of the points that both
    measured (same --seed). A profile under a table: medians against expected times, and how many iterations the bound
    covers. A fingerprint that asks for another table is drift too. Sessions of one quiet machine differ by 1 or 2%.

    Example: chunkfit compare table.json tonight.parquet --tolerance 5%
    """
    from ..files.units import percentage
    from ..fitters.compare import compare as compare_sides
    from .exit_codes import escape
    from .output import grid

    allowed = percentage(tolerance, "--tolerance")
    found = compare_sides(_load(left), _load(right), allowed)
    lines = [
        (f"fingerprint ({severity.value})", escape(f"{name}: {a!r} against {b!r}"))
        for severity, fields in found.fingerprint.items()
        for name, a, b in fields
    ]
    lines = lines or [("fingerprint", "the same")]
    lines.append(("compared", f"{found.kind}: {found.basis}"))
    verdict = [f"[bold red]drift:[/] {escape(reason)}" for reason in found.reasons]
    shown = verdict or [f"[bold green]no drift[/] beyond {100 * allowed:g}%"]
    emit_data(_data(left, right, found), as_json, grid(lines), _scene_table(found), *_coverage_lines(found), *shown)
    if found.reasons:
        raise typer.Exit(1)


def _load(path: Path) -> Side:
    """A Parquet file says so in its first bytes; anything else is read as a table."""
    from ..files.errors import UsageError

    try:
        with path.open("rb") as file:
            parquet = file.read(4) == b"PAR1"
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror or error}); expected a cost table or a profile: check the path"
        ) from error
    if parquet:
        from ..profiler.profile import Profile

        return Profile.load(path)
    from ..tables import CostTable

    return CostTable.load(path)


def _data(left: Path, right: Path, found: Comparison) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "left": str(left),
        "right": str(right),
        "kind": found.kind,
        "drift": bool(found.reasons),
        "reasons": list(found.reasons),
        "tolerance": found.tolerance,
        "fingerprint": {
            severity.value: [{"field": name, "left": a, "right": b} for name, a, b in fields]
            for severity, fields in found.fingerprint.items()
        },
        "basis": found.basis,
        "scenes": [asdict(scene) for scene in found.scenes],
        "coverage": None if found.coverage is None else found.coverage.model_dump(),
        "promised": found.promised,
    }


def _scene_table(found: Comparison) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("scene", "points", "median", "P90", "margins", "beyond", "worst", "at"):
        table.add_column(column, no_wrap=column == "at", justify="left" if column in ("scene", "at") else "right")
    for scene in found.scenes:
        over = scene.p90 > found.tolerance
        table.add_row(*_cells(scene), style="red" if over else None)
    return table


def _cells(scene: SceneDifference) -> list[str]:
    n, k, c, u = scene.worst_point
    return [
        scene.scene.value,
        f"{scene.points:,}",
        f"{100 * (scene.median - 1):+.1f}%",
        f"{100 * scene.p90:.1f}%",
        "" if scene.p90_margins is None else f"{scene.p90_margins:.2f}",
        "" if scene.beyond_margins is None else f"{100 * scene.beyond_margins:.1f}%",
        f"{100 * (scene.worst - 1):+.1f}%",
        f"n {n}, k {k}, c {c}, u {u}",
    ]


def _coverage_lines(found: Comparison) -> list[str]:
    from .output import percent

    count = found.coverage
    if count is None:
        return []
    missed = count.rows - count.covered
    return [
        f"above the bound: {missed} of {count.rows} iterations; coverage {percent(count.coverage)} "
        f"[{percent(count.low)}, {percent(count.high)}], certified {percent(found.promised)}"
    ]
