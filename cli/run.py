"""`chunkfit run`: the whole path: measure, fit, certify, export, report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .exit_codes import missing
from .fit import Fitted
from .options import Coverage, MeasureOptions
from .output import JsonFlag, Result, emit, escape, grid, progress_console, result_console
from .show import heat_map

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..profiler.profile import Profile
    from ..tables import CostTable
    from ..tables.document import Finding
    from .report.evidence import Evidence

BUDGET_OVER_DECODES = 2.0  # the question's iteration may take this many times the decodes' own bound


@dataclass(frozen=True)
class Question:
    """How large a chunk fits beside a middling decode batch, and the table's answer."""

    context_tokens: int
    budget_ms: float
    text: str
    data: dict[str, Any]


@dataclass(frozen=True)
class WholePath(Result):
    """Everything that `run` made; files by what they are."""

    files: dict[str, Path]
    profile: Profile
    fitted: Fitted
    findings: tuple[Finding, ...]
    question: Question

    def data(self) -> dict[str, Any]:
        files = {name: str(path) for name, path in self.files.items()}
        sessions = {name: meta.model_dump(mode="json") for name, meta in self.profile.meta.sessions.items()}
        data = {"files": files, "sessions": sessions} | self.fitted.data()
        return data | {"valid": not self.findings, "question": self.question.data}

    def shown(self) -> Iterator[RenderableType]:
        question = self.question
        yield grid(self.fitted.lines())
        table, width = self.fitted.table, result_console().width
        yield heat_map(table, question.context_tokens, 0, question.budget_ms, width)[0]
        yield question.text
        yield "written: " + ", ".join(map(str, self.files.values()))


def run(
    options: MeasureOptions,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("chunkfit-run"),
    coverage: Coverage = 0.99,
    as_json: JsonFlag = False,
) -> None:
    """Measure this device, fit and certify a cost table, export it, report on it, answer a question from it.

    Writes profile.parquet, table.json, table.csv, report.html and summary.json.

    Example: chunkfit run --minutes 2 --out chunkfit-run
    """
    from ..files.errors import CertificationError, UsageError
    from ..files.writing import write_atomically
    from ..fitters.fit import fit
    from ..profiler.messages import journal_of
    from ..profiler.profile import Profile, file_sha256
    from ..tables.export import write_csv
    from .measure_progress import measure, measure_request, too_few_points
    from .report.evidence import gather

    files = {"profile": out / "profile.parquet", "table": out / "table.json", "csv": out / "table.csv"}
    files["summary"] = out / "summary.json"
    measured = files["profile"]
    if options.resume and measured.exists() and not journal_of(measured).exists():
        profile = Profile.load(measured)  # the measurement was over; what came after it was interrupted
    else:
        request = measure_request(measured, options)
        refused = too_few_points(len(request.plan.calibrate), coverage)
        if refused is not None:
            raise UsageError(f"refused before measuring: {refused}")
        profile = measure(request, options.resume)
    progress_console().print("fitting and certifying ...")
    table = fit(profile, coverage=coverage, profile_sha256=file_sha256(measured))
    table.save(files["table"])
    write_csv(table, files["csv"])
    evidence = gather(files["table"], measured)
    if _report(evidence, out / "report.html"):
        files["report"] = out / "report.html"
    fitted = Fitted.of(files["table"], table, profile)
    result = WholePath(files, profile, fitted, evidence.findings, sample_question(table))
    write_atomically(files["summary"], (json.dumps(result.data(), indent=1, allow_nan=False) + "\n").encode())
    if evidence.findings:
        raise CertificationError("; ".join(map(str, evidence.findings)))
    emit(result, as_json)


def _report(evidence: Evidence, path: Path) -> bool:
    """Whether the page could be written: without its packages there is none."""
    from .report.write import save_report

    try:
        save_report(evidence, path)
    except ModuleNotFoundError as error:
        message = missing(error, "report")
        if message is None:
            raise
        progress_console().print(f"no report: {escape(message)}", highlight=False, soft_wrap=True)
        return False
    return True


def sample_question(table: CostTable) -> Question:
    """Budget: twice the bound of the decodes alone, so that it means something on any device."""
    from ..tables import Batch, Scene

    axes = table.arrays.axes
    n, k = axes.decodes[len(axes.decodes) // 2], axes.context_tokens[len(axes.context_tokens) // 2]
    if Scene.DECODE not in table.arrays.ladders or Scene.MIXED not in table.arrays.ladders:
        n = 0
    alone = table.bound_ms(Batch.of(n, k)) if n else table.bound_ms(Batch.of(chunk_tokens=axes.chunk_tokens[-1] // 2))
    budget = float(f"{BUDGET_OVER_DECODES * alone:.3g}")
    chunk = table.largest_chunk(decodes=n, context_tokens=k, prefix_tokens=0, budget_ms=budget)
    data: dict[str, Any] = {"decodes": n, "context_tokens": k, "budget_ms": budget, "largest_chunk": chunk}
    text = f"[bold]{n} decodes at context {k} within {budget:g} ms: the largest chunk is {chunk} tokens[/]"
    if n or chunk:
        batch = Batch.of(n, k if n else 0, chunk)
        data |= {"expected_ms": table.expected_ms(batch), "bound_ms": table.bound_ms(batch)}
        text += f" (expected {data['expected_ms']:.3f} ms, bound {data['bound_ms']:.3f} ms)"
    return Question(k, budget, text, data)
