"""What `simulate`, `capacity` and `sensitivity` share: the options of a study, its files and its progress."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .output import escape, progress_console

if TYPE_CHECKING:
    from rich.progress import Progress

    from ..scheduler.cost.named_costs import NamedCost
    from ..scheduler.run_report import RunReport
    from ..scheduler.simulation.cell import Cell, Costs, Setting
    from ..scheduler.simulation.pools import Pool
    from ..scheduler.simulation.runs import Study

JOURNAL = "runs.jsonl"

Policies = Annotated[
    str,
    typer.Option(
        "--policy",
        help="Joined by commas, with options: sloweave:prefills=1,aging=20ms,fixed-256. Policies: full, fixed-N, "
        "token-budget-N, sarathi-edf-N, sloweave, slidingserve-N, qoserve-N.",
    ),
]
Workloads = Annotated[
    str,
    typer.Option(
        "--workload",
        help="Joined by commas, with options: mixed,long:requests=200,azure:file=conv.csv. Workloads: chat, mixed, "
        "long, bursty, sharegpt, arxiv-v1, arxiv-v2, mixed-v1, mixed-v2; of files azure, mooncake, lengths, requests.",
    ),
]
Ttfts = Annotated[
    str | None, typer.Option("--ttft", help="TTFT targets in place of the workloads': 500ms,1s.", show_default=False)
]
Tpots = Annotated[
    str | None, typer.Option("--tpot", help="Targets between tokens in their place: 10ms,25ms.", show_default=False)
]
Cost = Annotated[
    str,
    typer.Option(
        help="What policies ask: sloweave, curved or a table (its bound): table.json:surface=expected,factor=0.9x."
    ),
]
Truth = Annotated[
    str,
    typer.Option(
        help="What iterations take: the same source (of a table its expected time) or another; noise=3%, residuals=F."
    ),
]
Criterion = Annotated[str, typer.Option(help="By which a request is good: per_token, schedule or mean_gap.")]
Seeds = Annotated[int, typer.Option(help="Runs with seeds 0, 1, ... of each.", min=1)]
MaxRunning = Annotated[int, typer.Option(help="Requests that hold KV pages at once.", min=1)]
KvTokens = Annotated[
    int | None, typer.Option(help="KV capacity in tokens; default: what the costs hold.", min=1, show_default=False)
]
DecisionTime = Annotated[str, typer.Option(help="Added to every iteration, with its unit: 5us.")]
Jobs = Annotated[int | None, typer.Option(help="Processes; default: one a core. The results are the same.", min=1)]
OnRay = Annotated[
    str | None,
    typer.Option("--ray", help="Play on Ray instead: local, auto, or a cluster's address.", show_default=False),
]
Out = Annotated[
    Path | None, typer.Option(help="Folder of the journal, results and pictures; default: nothing is kept.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the study in --out; what it has is not played.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the study in --out.")]
Plot = Annotated[bool, typer.Option("--plot", help="Also pictures (PNG) in --out.")]


@dataclass(frozen=True, slots=True)
class Kept:
    """Where a study is played and what is kept of it."""

    jobs: int | None
    ray: str | None
    out: Path | None
    resume: bool
    overwrite: bool
    plot: bool

    def check(self) -> None:
        """Before anything is played. Raises UsageError, and MissingExtraError where a picture cannot be drawn."""
        from importlib.util import find_spec

        from ..files.errors import MissingExtraError, UsageError

        if self.jobs is not None and self.ray is not None:
            raise UsageError("--jobs and --ray: both say where runs are played; expected one of them")
        if self.resume and self.overwrite:
            raise UsageError("--resume and --overwrite: the study in --out is kept or replaced; expected one of them")
        for name in ("resume", "overwrite", "plot"):
            if getattr(self, name) and self.out is None:
                raise UsageError(f"--{name} without --out: expected the folder, such as --out study")
        if self.plot and find_spec("matplotlib") is None:
            raise MissingExtraError("--plot needs matplotlib, which is not installed: pip install 'chunkfit[plot]'")


def variants(given: dict[str, str | None]) -> list[dict[str, str]]:
    """Options of a workload by name, each with texts joined by commas or None: every combination of them."""
    from ..files.specs import split_list

    found: list[dict[str, str]] = [{}]
    for name, joined in given.items():
        if joined is not None:
            found = [{**before, name: text} for before in found for text in split_list(joined, f"--{name}")]
    return found


@contextmanager
def open_study(costs: Costs, kept: Kept) -> Iterator[Study]:
    """The study, its pool and its journal, closed at the end; on Ctrl-C it says how to go on."""
    from ..scheduler.compiled import slower_note
    from ..scheduler.simulation.journal import open_journal
    from ..scheduler.simulation.runs import Study

    console = progress_console()
    note = slower_note()
    if note is not None:
        console.print(f"[dim]{escape(note)}[/]", highlight=False)
    with ExitStack() as stack:
        pool, journal = _pool(costs, kept), None
        stack.callback(pool.close)
        if kept.out is not None:
            path = kept.out / JOURNAL
            journal = stack.enter_context(open_journal(path, resume=kept.resume, overwrite=kept.overwrite))
        try:
            yield Study(pool, journal)
        except KeyboardInterrupt:
            if kept.out is not None:
                console.print(
                    f"interrupted; what was played is kept in {escape(str(kept.out / JOURNAL))}: go on with the same "
                    "command and --resume",
                    highlight=False,
                    soft_wrap=True,
                )
            raise


def played(study: Study, cells: Sequence[Cell]) -> list[RunReport]:
    """The reports of all cells, with progress on stderr."""
    with progress() as bar:
        task = bar.add_task("first run, which compiles where nothing is kept", total=len(cells))

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)
            if done:
                bar.update(task, description="runs")

        return study.reports(cells, show)


def facts(setting: Setting, truth: NamedCost, seeds: int) -> dict[str, Any]:
    """What all runs of a study share, for JSON."""
    return {
        "cost": setting.belief,
        "truth": setting.truth,
        "device": truth.device,
        "criterion": setting.criterion.replace("-", "_"),
        "seeds": seeds,
        "max_running": setting.max_running,
        "kv_tokens": setting.kv_tokens,
        "decision_us": setting.decision_us,
    }


def facts_line(data: Mapping[str, Any]) -> str:
    """The same for people."""
    device = data["device"] or "no device: a formula"
    kv = "as the costs hold" if data["kv_tokens"] is None else f"{data['kv_tokens']:,} tokens"
    return escape(
        f"cost {data['cost']}; truth {data['truth']} ({device}); criterion {data['criterion']}; {data['seeds']} seeds; "
        f"up to {data['max_running']} running, KV {kv}"
        + (f"; decisions {data['decision_us']:g} us" if data["decision_us"] else "")
    )


def save_summary(data: dict[str, Any], files: Sequence[Path], out: Path) -> str:
    """Write summary.json, and put the names of all files into `data`; returns the line that says them."""
    from ..files.writing import write_atomically

    data["files"] = [str(file) for file in (*files, out / "summary.json")]
    write_atomically(out / "summary.json", (json.dumps(data, indent=1, allow_nan=False) + "\n").encode())
    return "written: " + escape(", ".join(data["files"]))


def progress() -> Progress:
    """A bar with counts and the time that is left."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, TimeRemainingColumn(), console=progress_console())


def _pool(costs: Costs, kept: Kept) -> Pool:
    if kept.ray is not None:
        from ..scheduler.simulation.on_ray import Ray

        return Ray(costs, kept.ray)
    from ..scheduler.simulation.pools import Processes

    return Processes(costs, kept.jobs or len(os.sched_getaffinity(0)))
