"""`chunkfit sensitivity`: what one parameter does to goodput and misses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

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
    Resume,
    Seeds,
    Truth,
)

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from ..scheduler.simulation.runs import Group

Name = Annotated[str, typer.Argument(metavar="PARAMETER", help="margin, bias, noise, alpha, alpha-ms, window or B.")]
Values = Annotated[
    str | None, typer.Option(help="Joined by commas: 0,0.05,0.1; default: some of each.", show_default=False)
]


def sensitivity(
    parameter: Name,
    values: Values = None,
    policy: Annotated[str, typer.Option(help="Policies, joined by commas.")] = "sloweave",
    workload: Annotated[str, typer.Option(help="One workload, such as mixed:rate=60,tpot=10ms.")] = "mixed",
    cost: Cost = "sloweave",
    truth: Truth = "same",
    criterion: Criterion = "per_token",
    seeds: Seeds = 5,
    max_running: MaxRunning = 128,
    kv_tokens: KvTokens = None,
    decision_time: DecisionTime = "0us",
    jobs: Jobs = None,
    ray: OnRay = None,
    out: Out = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    plot: Plot = False,
    allow_refuted: AllowRefuted = False,
    as_json: JsonFlag = False,
) -> None:
    """One parameter at several values, all else as it is: goodput, and who misses what.

    margin: of sloweave. bias: factor on what the policy asks. noise: of what iterations take. alpha: urgency of
    slidingserve; alpha-ms: of qoserve. window: iterations of their throughput average. B: token budget or chunk.
    With --out: runs.jsonl, summary.json, and sensitivity.png with --plot.

    Example: chunkfit sensitivity bias --policy sloweave --workload mixed:rate=60,tpot=10ms --values 0.9x,1x,1.1x
    """
    from ..files.specs import split_list
    from ..files.units import milliseconds
    from ..scheduler.cost.named_costs import NamedCost, policy_cost, true_cost
    from ..scheduler.simulation.cell import Setting, cell
    from ..scheduler.simulation.pictures import sweep_picture
    from ..scheduler.simulation.runs import groups
    from ..scheduler.simulation.sensitivity import Texts
    from ..scheduler.simulation.sensitivity import parameter as found_parameter
    from .study_options import JOURNAL, facts, facts_line, open_study, played, save_summary

    kept = Kept(jobs, ray, out, resume, overwrite, plot)
    kept.check()
    decision_us = 1000 * milliseconds(decision_time, "--decision-time")
    varied = found_parameter(parameter)
    tried = list(varied.values) if values is None else split_list(values, "--values")
    costs: dict[str, NamedCost] = {}
    cells, labels = [], []
    for policy_text in split_list(policy, "--policy"):
        for value in tried:
            said = varied.set(Texts(policy_text, cost, truth), value)
            belief, real = policy_cost(said.belief, allow_refuted), true_cost(said.truth, said.belief, allow_refuted)
            costs |= {belief.name: belief, real.name: real}
            setting = Setting(
                belief.name,
                real.name,
                criterion,
                max_running,
                kv_tokens,
                decision_us,
            )
            labels.append((policy_text, value))
            cells += [cell(said.policy, workload, seed, setting) for seed in range(seeds)]
    with open_study(costs, kept) as study:
        reports = played(study, cells)
    lines: dict[str, list[tuple[str, Group]]] = {}
    for index, (policy_text, value) in enumerate(labels):
        rows = slice(index * seeds, (index + 1) * seeds)
        (group,) = groups(cells[rows], reports[rows])
        lines.setdefault(policy_text, []).append((value, group))
    base, real = policy_cost(cost, allow_refuted), true_cost(truth, cost, allow_refuted)
    data: dict[str, Any] = facts(
        Setting(base.name, real.name, criterion, max_running, kv_tokens, decision_us),
        real,
        seeds,
    )
    data |= {"parameter": parameter, "workload": cells[0].workload}
    data["rows"] = [
        {"policy": name, "value": value, **group.data()} for name, members in lines.items() for value, group in members
    ]
    shown: list[RenderableType] = [_table(parameter, lines), facts_line(data)]
    if out is not None:
        files = [out / JOURNAL]
        if plot:
            sweep_picture(parameter, lines, out / "sensitivity.png")
            files.append(out / "sensitivity.png")
        shown.append(save_summary(data, files, out))
    emit_data(data, as_json, *shown)


def _table(parameter: str, lines: dict[str, list[tuple[str, Group]]]) -> Table:
    from rich.table import Table

    from .output import escape, number, percent

    table = Table(box=None, pad_edge=False)
    for name in ("policy", parameter):
        table.add_column(name)
    for name in ("goodput/s", "sd", "good", "TTFT missed", "late", "TTFT P99", "P99 gap P50", "P99"):
        table.add_column(name, justify="right")
    for policy, members in lines.items():
        best = max(group.spreads["goodput_per_s"].mean for _, group in members)
        for value, group in members:
            goodput = group.spreads["goodput_per_s"]
            table.add_row(
                escape(policy),
                value,
                f"{goodput.mean:.4g}",
                "" if goodput.sd is None else f"{goodput.sd:.2g}",
                percent(group.mean("good_share")),
                percent(1 - group.spreads["ttft_met"].mean),
                percent(group.mean("missing_schedule")),
                *(number(group.mean(name)) for name in ("ttft_ms_p99", "p99_gap_ms_p50", "p99_gap_ms_p99")),
                style="bold" if goodput.mean == best else None,
            )
    table.caption = "means over seeds; late: started requests with a token after arrival + TTFT + k TPOT"
    return table
