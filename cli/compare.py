"""`chunkfit compare`: is the device still the one that was measured?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Share
from .output import JsonFlag, Result, emit, escape, grid, percent

INCONCLUSIVE = 3  # exit code, as of the errors of an environment that cannot do it

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from ..fitters.compare import Comparison, SceneDifference, Side


@dataclass(frozen=True)
class FileComparison(Result):
    """What differs between two files."""

    left: Path
    right: Path
    comparison: Comparison

    def data(self) -> dict[str, Any]:
        found = self.comparison
        return {
            "left": str(self.left),
            "right": str(self.right),
            "kind": found.kind,
            "drift": bool(found.reasons),
            "reasons": list(found.reasons),
            "noisy": list(found.noisy),
            "unknown": list(found.unknown),
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

    def shown(self) -> Iterator[RenderableType]:
        found = self.comparison
        lines = [
            (f"fingerprint ({severity.value})", escape(f"{name}: {a!r} against {b!r}"))
            for severity, fields in found.fingerprint.items()
            for name, a, b in fields
        ]
        if found.unknown:
            listed = ", ".join(found.unknown)
            lines.append(("fingerprint", f"[yellow]cannot tell: neither side says {listed}[/]"))
        yield grid([*(lines or [("fingerprint", "the same")]), ("compared", f"{found.kind}: {found.basis}")])
        yield _scene_table(found)
        if found.coverage is not None:
            count = found.coverage
            yield (
                f"above the bound: {count.rows - count.covered} of {count.rows} iterations; coverage "
                f"{percent(count.coverage)} [{percent(count.low)}, {percent(count.high)}], certified "
                f"{percent(found.promised)}"
            )
        for reason in found.reasons:
            yield f"[bold red]drift:[/] {escape(reason)}"
        for reason in found.noisy:
            yield f"[bold yellow]too noisy to say:[/] {escape(reason)}"
        if not found.reasons and not found.noisy:
            yield f"[bold green]no drift[/] beyond {100 * found.tolerance:g}%"


def compare(
    left: Annotated[Path, typer.Argument(help="Cost table (JSON) or profile (Parquet): what is expected.")],
    right: Annotated[Path, typer.Argument(help="Cost table or profile to hold against it.")],
    tolerance: Annotated[
        Share, typer.Option(help="Drift: in some scene a tenth of the points differ by more than this.")
    ] = 0.05,
    as_json: JsonFlag = False,
) -> None:
    """Two tables, two profiles, or a table and a profile: where they differ, fingerprints first.

    Exit 1 on drift, 3 where the table's own errors are larger than the tolerance and hide it.

    Two tables: expected times at the nodes that either measured. Two profiles: medians of the points that both
    measured (same --seed). A profile under a table: medians against expected times, and how many iterations the bound
    covers. A fingerprint that asks for another table is drift too. Sessions of one quiet machine differ by 1 or 2%.

    Example: chunkfit compare table.json tonight.parquet --tolerance 5%
    """
    from ..fitters.compare import compare as compare_sides

    comparison = compare_sides(_load(left), _load(right), tolerance)
    emit(FileComparison(left, right, comparison), as_json)
    if comparison.reasons:
        raise typer.Exit(1)
    if comparison.noisy:
        raise typer.Exit(INCONCLUSIVE)


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
