"""`chunkfit run`: the whole path: measure, fit, certify, export, report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .output import JsonFlag, emit_data
from .profile import Attention, Device, Minutes, Model, Overwrite, Points, Resume, Seed, Tolerance, Traffic


def run(
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("chunkfit-run"),
    device: Device = "auto",
    model: Model = None,
    attention: Attention = None,
    minutes: Minutes = 2.0,
    points: Points = 1000,
    tolerance: Tolerance = "1%",
    traffic: Traffic = None,
    coverage: Annotated[float, typer.Option(help="Share of iterations the bound must cover.")] = 0.99,
    seed: Seed = 0,
    resume: Resume = False,
    overwrite: Overwrite = False,
    as_json: JsonFlag = False,
) -> None:
    """Measure this device, fit and certify a cost table, export it, report on it, answer a question from it.

    Writes profile.parquet, table.json, table.csv, report.html and summary.json.

    Example: chunkfit run --minutes 2 --out chunkfit-run
    """
    import json
    from dataclasses import asdict

    from ..files.errors import CertificationError
    from ..files.writing import write_atomically
    from ..fitters.fit import fit
    from ..profiler.messages import journal_of
    from ..profiler.profile import Profile, file_sha256
    from ..tables.export import write_csv
    from .evidence import by_traffic, evidence_lines, fitter_lines, summary_of, traffic_lines
    from .exit_codes import escape, missing
    from .heat_map import heat_map
    from .measure_progress import SweepOptions, sweep, sweep_request
    from .output import grid, progress_console, result_console
    from .report.evidence import gather
    from .report.write import save_report
    from .sample_question import sample_question

    console = progress_console()
    where = out / "profile.parquet"
    if resume and where.exists() and not journal_of(where).exists():
        profile = Profile.load(where)  # the sweep was over; what came after it was interrupted
    else:
        options = SweepOptions(device, model, attention, seed, minutes, points, tolerance, traffic)
        request = sweep_request(where, options, resume=resume, overwrite=overwrite)
        profile = sweep(request, resume)
    console.print("fitting and certifying ...")
    table = fit(profile, coverage=coverage, profile_sha256=file_sha256(where))
    paths = {"profile": where, "table": out / "table.json", "csv": out / "table.csv", "summary": out / "summary.json"}
    table.save(paths["table"])
    write_csv(table, paths["csv"])
    evidence = gather(paths["table"], where)
    try:
        save_report(evidence, out / "report.html")
        paths["report"] = out / "report.html"
    except ModuleNotFoundError as error:
        message = missing(error, "report")
        if message is None:
            raise
        console.print(f"no report: {escape(message)}", highlight=False, soft_wrap=True)
    question = sample_question(table)
    files = {name: str(path) for name, path in paths.items()}
    sessions = {name: meta.model_dump(mode="json") for name, meta in profile.meta.sessions.items()}
    summary = {"files": files, "sessions": sessions} | summary_of(table.document)
    weighted = by_traffic(profile, table.document)
    summary |= {"by_traffic": asdict(weighted) if weighted else None}
    summary |= {"valid": not evidence.findings, "question": question.data}
    write_atomically(paths["summary"], (json.dumps(summary, indent=1, allow_nan=False) + "\n").encode())
    if evidence.findings:
        raise CertificationError("; ".join(map(str, evidence.findings)))
    picture, _ = heat_map(table, question.context_tokens, 0, question.budget_ms, result_console().width)
    written = "written: " + ", ".join(files.values())
    lines = [*fitter_lines(table.document), *evidence_lines(table.document), *traffic_lines(weighted)]
    emit_data(summary, as_json, grid(lines), picture, question.text, written)
