"""`chunkfit fit`: a profile to a certified table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Coverage, OpenShare
from .output import JsonFlag, Result, emit, grid
from .table_lines import evidence_lines, fitter_lines, summary_of, traffic_lines, verdict_lines

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..fitters.metrics import WeightedCoverage
    from ..profiler.profile import Profile
    from ..tables import CostTable


@dataclass(frozen=True)
class Fitted(Result):
    """A fitted table and the file it is written to; `by_traffic` where the profile was planned by traffic."""

    path: Path
    table: CostTable
    by_traffic: WeightedCoverage | None

    @classmethod
    def of(cls, path: Path, table: CostTable, profile: Profile) -> Fitted:
        """With the traffic-weighted coverage of the profile's test session."""
        from ..fitters.metrics import traffic_coverage

        return cls(path, table, traffic_coverage(profile, table.arrays))

    def data(self) -> dict[str, Any]:
        weighted = asdict(self.by_traffic) if self.by_traffic else None
        return summary_of(self.table.document) | {"by_traffic": weighted}

    def lines(self) -> list[tuple[str, str]]:
        document = self.table.document
        return [
            *verdict_lines(document),
            *fitter_lines(document),
            *evidence_lines(document),
            *traffic_lines(self.by_traffic),
        ]

    def shown(self) -> Iterator[RenderableType]:
        yield grid(self.lines())
        yield f"written: {self.path}"


def fit(
    profile: Annotated[list[Path], typer.Argument(help="Profile(s) of one device, model and engine (Parquet).")],
    out: Annotated[Path, typer.Option(help="Cost table to write.")] = Path("table.json"),
    fitter: Annotated[str, typer.Option(help="Estimator of the expected time; auto: the best of all.")] = "auto",
    coverage: Coverage = 0.99,
    confidence: Annotated[OpenShare, typer.Option(help="Confidence of that, over the drawing of the session.")] = 0.95,
    uncertified: Annotated[
        bool,
        typer.Option("--uncertified", help="Expected times alone, of means and grids too: nothing is promised."),
    ] = False,
    microbench: Annotated[
        Path | None,
        typer.Option(help="Results of `chunkfit microbench` on the same device, for the fitter roofline."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Fit expected time and bound, certify the bound, judge the table, write it. Exit 1 where it must not be used.

    Example: chunkfit fit profile.parquet --out table.json
    """
    from ..fitters.fit import fit as fit_table
    from ..fitters.fit import fit_expected
    from ..profiler.microbench.results import load
    from ..profiler.profile import Profile, concat, file_sha256
    from ..tables.verdict import Grade

    # A table of several files names none of them: it is checked against the file they were joined into.
    rows = Profile.load(profile[0]) if len(profile) == 1 else concat([Profile.load(path) for path in profile])
    sha = file_sha256(profile[0]) if len(profile) == 1 else None
    operators = load(microbench) if microbench is not None else None
    if uncertified:
        table = fit_expected(rows, fitter=fitter, profile_sha256=sha, operators=operators)
    else:
        table = fit_table(
            rows, fitter=fitter, coverage=coverage, confidence=confidence, profile_sha256=sha, operators=operators
        )
    table.save(out)
    emit(Fitted.of(out, table, rows), as_json)
    if table.document.verdict is not None and table.document.verdict.grade is Grade.DO_NOT_USE:
        raise typer.Exit(1)
