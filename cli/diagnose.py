"""`chunkfit diagnose`: was the token budget of a run too high or too low?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .output import JsonFlag, emit_data

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..files.records import Record, SkippedRows
    from ..profiler.importers.mapping import Expression
    from ..scheduler.diagnose import Symptom
    from ..scheduler.run_report import RunReport

MapText = Annotated[
    str,
    typer.Option(
        "--map",
        help="Where the logs hold start_ms, latency_ms, decodes, chunk_tokens, queued of an iteration and arrival_ms, "
        "prompt_tokens, cached_tokens, output_tokens, first_token_ms, p99_gap_ms of a request: start_ms=ts*1000,...",
    ),
]


def diagnose(
    run: Annotated[
        Path, typer.Argument(help="Folder that `simulate --log` wrote, its run.json, or an iteration log (CSV, JSONL).")
    ],
    requests: Annotated[
        Path | None, typer.Option(help="Request log beside an iteration log.", show_default=False)
    ] = None,
    mapping: MapText = "",
    where: Annotated[str, typer.Option(help="Only rows with COLUMN=VALUE,... of logs of several runs: run=3.")] = "",
    tpot: Annotated[
        str | None,
        typer.Option(help="Target of an iteration, 25ms; default: the requests' shortest.", show_default=False),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Symptoms of a wrong token budget in a run's iterations and requests, with their evidence.

    Too high: iterations over the target coincide with long prompts. Too low: TTFT rises for all lengths while less is
    computed than arrives and the iterations leave room. A run that is too short for either ends with exit code 3.

    Example: chunkfit diagnose study/run --tpot 25ms
    """
    from ..files.errors import UsageError
    from ..files.records import SkippedRows
    from ..profiler.importers.mapping import pairs
    from ..scheduler.diagnose import diagnose as judge
    from ..scheduler.diagnose import of_log
    from ..scheduler.run_files import iterations_of, requests_of
    from .output import escape

    left_out = SkippedRows()
    iterations_file, requests_file, report = _files(run, requests)
    columns, chosen, used = _columns(mapping), pairs(where, "--where"), set[str]()
    log = iterations_of(_records(iterations_file, columns, chosen, used, left_out))
    rows, results = requests_of(_records(requests_file, columns, chosen, used, left_out))
    if used != set(columns):
        names = ", ".join(sorted(set(columns) - used))
        raise UsageError(f"--map {mapping!r}: neither log has the columns of {names}; check their names")
    target_ms = _target_ms(tpot, rows["tpot_ms"], requests_file)
    symptoms = judge(of_log(log, rows, results), rows, results, target_ms)
    data: dict[str, Any] = {
        "iterations_file": str(iterations_file),
        "requests_file": str(requests_file),
        "iterations": len(log),
        "requests": len(rows),
        "target_ms": target_ms,
        "left_out": left_out.counts(),
        "symptoms": [
            {"rule": each.rule, "found": each.found, "says": each.says, "evidence": dict(each.evidence)}
            for each in symptoms
        ],
    }
    head = f"{len(log):,} iterations, {len(rows):,} requests, target {target_ms:g} ms"
    shown: list[RenderableType] = [] if report is None else [report]
    emit_data(data, as_json, *shown, head, *map(escape, left_out.lines()), *(_lines(symptoms)))
    if all(each.found is None for each in symptoms):
        raise typer.Exit(3)


def _files(run: Path, requests: Path | None) -> tuple[Path, Path, RunReport | None]:
    """(iterations, requests, report). Raises UsageError where it is not clear which."""
    from ..files.errors import UsageError
    from ..scheduler.run_files import ITERATIONS, REPORT, REQUESTS
    from ..scheduler.run_report import load

    folder = run if run.is_dir() else run.parent if run.name == REPORT else None
    if folder is None:
        if requests is None:
            raise UsageError(
                f"{run}: an iteration log without --requests: expected the log of its requests too, or the folder of a "
                "run (`chunkfit simulate --out DIR --log` writes DIR/run)"
            )
        return run, requests, None
    if requests is not None:
        raise UsageError(f"--requests beside {run}: a run's folder has its own; leave it out")
    report = load(folder / REPORT) if (folder / REPORT).exists() else None
    return folder / ITERATIONS, folder / REQUESTS, report


def _columns(mapping: str) -> dict[str, Expression]:
    """What --map says. Raises UsageError for what no log has."""
    from ..files.errors import UsageError
    from ..profiler.importers.mapping import pairs, parse
    from ..scheduler.run_files import ITERATION_COLUMNS, REQUEST_COLUMNS

    known = (*ITERATION_COLUMNS, *REQUEST_COLUMNS, "cached_tokens", "tpot_ms", "p99_gap_ms")
    columns = {name: parse(name, text) for name, text in pairs(mapping, "--map").items()}
    for name in columns:
        if name not in known:
            raise UsageError(f"--map {mapping!r}: {name!r} is unknown; expected some of {', '.join(known)}")
    return columns


def _records(
    path: Path, columns: dict[str, Expression], where: dict[str, str], used: set[str], left_out: SkippedRows
) -> Iterator[Record]:
    """Rows that are asked for, with the mapped columns that they have in place; `used` gets their names."""
    from ..files.records import Record, records_of
    from ..profiler.importers.mapping import selected

    for record in records_of(str(path), left_out):
        if not selected(record, where):
            continue
        values = dict(record.values)
        for name, expression in columns.items():
            if all(column in record.values for column in expression.columns):
                used.add(name)
                said = all(map(record.says, expression.columns))
                values[name] = float(expression.value(record)) if said else None
        yield Record(record.source, record.place, values)


def _target_ms(tpot: str | None, tpots_ms: Any, where: Path) -> float:
    """Raises UsageError where neither the option nor the requests say it."""
    import numpy as np

    from ..files.errors import UsageError
    from ..files.units import milliseconds

    if tpot is not None:
        return milliseconds(tpot, "--tpot")
    known = tpots_ms[np.isfinite(tpots_ms)]
    if not len(known):
        raise UsageError(f"{where}: no tpot_ms in it; expected --tpot, such as --tpot 25ms")
    return float(known.min())


def _lines(symptoms: tuple[Symptom, ...]) -> list[str]:
    from .output import escape

    words = {True: "[bold red]found[/]", False: "[green]not found[/]", None: "[yellow]cannot say[/]"}
    return [f"{each.rule}: {words[each.found]}: {escape(each.says)}" for each in symptoms]
