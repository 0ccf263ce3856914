"""`chunkfit simulate`: what policies are worth, before a GPU is touched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .options import AllowRefuted
from .output import JsonFlag, emit_data
from .study_options import (
    Cost,
    Criterion,
    DecisionTime,
    Jobs,
    Kept,
    KvTokens,
    MaxRunning,
    OnRay,
    Out,
    Overwrite,
    Plot,
    Policies,
    Resume,
    Seeds,
    Tpots,
    Truth,
    Ttfts,
    Workloads,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import RenderableType
    from rich.table import Table

    from ..scheduler.run_report import RunReport
    from ..scheduler.simulation.cell import Cell, Costs
    from ..scheduler.simulation.runs import Group

COUNTS = ("refused", "unfinished", "preemptions")
Rates = Annotated[
    str | None, typer.Option("--rate", help="Requests a second in the workloads' place: 40,60,85.", show_default=False)
]
Log = Annotated[
    bool,
    typer.Option("--log", help="Also the iterations and requests of the first run, in --out: for `chunkfit diagnose`."),
]


def simulate(
    policy: Policies = "sloweave,fixed-256,full",
    workload: Workloads = "mixed",
    rate: Rates = None,
    ttft: Ttfts = None,
    tpot: Tpots = None,
    cost: Cost = "sloweave",
    truth: Truth = "same",
    criterion: Criterion = "per_token",
    seeds: Seeds = 3,
    max_running: MaxRunning = 128,
    kv_tokens: KvTokens = None,
    decision_time: DecisionTime = "0us",
    jobs: Jobs = None,
    ray: OnRay = None,
    out: Out = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    plot: Plot = False,
    log: Log = False,
    allow_refuted: AllowRefuted = False,
    as_json: JsonFlag = False,
) -> None:
    """Every policy on every workload, rate, target and seed. Figures are means over seeds; one run is shown whole.

    With --out: runs.jsonl (the journal), runs.csv, summary.json; --plot adds pictures, of goodput against load where
    several rates are given, of TTFT and gaps, and of chunks against slack. The first run of all compiles: a minute.

    Example: chunkfit simulate --policy sloweave,fixed-256,full --workload mixed --rate 40,60,85 --tpot 25ms
    """
    from ..files.errors import UsageError
    from ..files.specs import split_list
    from ..files.units import milliseconds
    from ..scheduler.cost.named_costs import policy_cost, true_cost
    from ..scheduler.run_report import write_csv
    from ..scheduler.simulation.cell import Setting, cell
    from ..scheduler.simulation.pictures import load_picture
    from ..scheduler.simulation.runs import groups
    from .study_options import JOURNAL, facts, facts_line, open_study, played, save_summary, variants

    kept = Kept(jobs, ray, out, resume, overwrite, plot)
    kept.check()
    decision_us = 1000 * milliseconds(decision_time, "--decision-time")
    if log and out is None:
        raise UsageError("--log without --out: expected the folder, such as --out study")
    belief, real = policy_cost(cost, allow_refuted), true_cost(truth, cost, allow_refuted)
    costs: Costs = {belief.name: belief, real.name: real}
    setting = Setting(belief.name, real.name, criterion, max_running, kv_tokens, decision_us)
    cells = [
        cell(policy_text, workload_text, seed, setting, **replaced)
        for workload_text in split_list(workload, "--workload")
        for replaced in variants({"rate": rate, "ttft": ttft, "tpot": tpot})
        for policy_text in split_list(policy, "--policy")
        for seed in range(seeds)
    ]
    cells = list(dict.fromkeys(cells))  # two texts may be one policy
    with open_study(costs, kept) as study:
        reports = played(study, cells)
    found = groups(cells, reports)
    data = facts(setting, real, seeds) | {"groups": [group.data() for group in found]}
    shown: list[RenderableType] = [_table(found)] if len(cells) > 1 else [reports[0]]
    shown += [*_refusal_lines(found), *_support_lines(reports)]
    shown.append(facts_line(data))
    if out is not None:
        write_csv(reports, out / "runs.csv")
        files = [out / JOURNAL, out / "runs.csv", *_pictures(cells, costs, out, plot)]
        if plot and "," in (rate or ""):
            load_picture(found, out / "load.png")
            files.append(out / "load.png")
        if log:
            files += _first_run(cells[0], costs, out)
        shown.append(save_summary(data, files, out))
    emit_data(data, as_json, *shown)


def _first_run(cell: Cell, costs: Costs, out: Path) -> list[Path]:
    """Played again with its log: equal cells have equal runs."""
    from ..scheduler.run_files import save_run
    from ..scheduler.simulation.cell import play, report_of

    played = play(cell, costs, log=True)
    save_run(out / "run", report_of(cell, costs, played), played.workload.requests, played.run.results, played.run.log)
    return [out / "run"]


def _pictures(cells: Sequence[Cell], costs: Costs, out: Path, plot: bool) -> list[Path]:
    """Of the last workload, rate and targets one run of each policy, with seed 0."""
    if not plot:
        return []
    from ..scheduler.simulation.cell import play
    from ..scheduler.simulation.pictures import latency_picture, timeline_picture

    last = cells[-1].workload
    runs = {cell.policy: play(cell, costs, log=True) for cell in cells if cell.workload == last and cell.seed == 0}
    latency_picture(runs, last, out / "latency.png")
    timeline_picture(runs, last, out / "timeline.png")
    return [out / "latency.png", out / "timeline.png"]


def _support_lines(reports: Sequence[RunReport]) -> list[str]:
    """How many iterations the policies' cost did not rest on measured batches for."""
    from .output import percent

    total = {name: sum(one.counts[name] for one in reports) for name in ("iterations", "by_order", "unmeasured")}
    if not total["by_order"] + total["unmeasured"]:
        return []
    by_order, unknown = (total[name] / max(total["iterations"], 1) for name in ("by_order", "unmeasured"))
    return [
        f"[yellow]batches that the policy's cost did not measure: {percent(by_order)} of the iterations by order, "
        f"{percent(unknown)} without an answer[/]"
    ]


def _refusal_lines(found: Sequence[Group]) -> list[str]:
    """Why requests were refused, by policy; of one run alone its report says it."""
    from ..scheduler.serving_metrics import Refusals
    from .output import escape, number

    lines = []
    for group in found if len(found) > 1 else ():
        for name, field in Refusals.model_fields.items():
            count = group.mean(f"refused_because_{name}")
            if count:
                lines.append(f"[yellow]{escape(group.policy)}: refused {number(count)} {field.description}[/]")
    return lines


def _table(found: Sequence[Group]) -> Table:
    from rich.table import Table

    from .output import escape, number, percent

    # What happened nowhere takes no column.
    counts = [name for name in COUNTS if any(group.mean(name) for group in found)]
    table = Table(box=None, pad_edge=False)
    for name in ("workload", "rate/s", "TTFT", "TPOT", "policy"):
        table.add_column(name)
    for name in ("good", "goodput/s", "sd", "TTFT P50", "P99", "P99 gap P50", "P99", "late", *counts):
        table.add_column(name, justify="right")
    best: dict[str, float] = {}
    for group in found:
        best[group.workload] = max(best.get(group.workload, 0.0), group.spreads["goodput_per_s"].mean)
    for group in found:
        goodput = group.spreads["goodput_per_s"]
        table.add_row(
            *(group.workload.partition(":")[0], group.option("rate"), group.option("ttft"), group.option("tpot")),
            escape(group.policy),
            percent(group.mean("good_share")),
            f"{goodput.mean:.4g}",
            "" if goodput.sd is None else f"{goodput.sd:.2g}",
            *(number(group.mean(name)) for name in ("ttft_ms_p50", "ttft_ms_p99", "p99_gap_ms_p50", "p99_gap_ms_p99")),
            percent(group.mean("missing_schedule")),
            *(number(group.mean(name)) for name in counts),
            style="bold" if goodput.mean == best[group.workload] else None,
        )
    table.caption = (
        "means over seeds, of quantiles over requests in ms; late: started requests with a token after arrival + TTFT "
        "+ k TPOT; bold: the most good requests/s"
    )
    return table
