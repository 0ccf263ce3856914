"""`chunkfit capacity`: the highest arrival rate that each policy bears."""

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
    Policies,
    Resume,
    Seeds,
    Tpots,
    Truth,
    Ttfts,
    Workloads,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType
    from rich.table import Table

    from ..scheduler.capacity import Capacity
    from ..scheduler.simulation.cell import Cell
    from ..scheduler.simulation.runs import Study

Good = Annotated[str, typer.Option("--good", help="Share of requests that has to be good, on average over the seeds.")]
Low = Annotated[
    str | None, typer.Option(help="Lowest rate tried, default: 1/16 of the workload's.", show_default=False)
]
High = Annotated[str | None, typer.Option(help="Highest rate tried, default: 16 times it.", show_default=False)]
Tolerance = Annotated[str, typer.Option(help="How near the answer and the next higher rate that fails get.")]


def capacity(
    policy: Policies = "sloweave,fixed-256,full",
    workload: Workloads = "mixed",
    ttft: Ttfts = None,
    tpot: Tpots = None,
    good: Good = "99%",
    low: Low = None,
    high: High = None,
    tolerance: Tolerance = "2%",
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
    allow_refuted: AllowRefuted = False,
    as_json: JsonFlag = False,
) -> None:
    """Highest rate at which so many requests are good, by bisection, for each policy, workload and target.

    A higher rate brings the same requests sooner (common random numbers). With --out: runs.jsonl, summary.json.

    Example: chunkfit capacity --policy sloweave,fixed-256,fixed-1024 --workload mixed --tpot 10ms,25ms --good 99%
    """
    from ..files.specs import split_list
    from ..files.units import milliseconds, percentage
    from ..scheduler.capacity import capacity as search
    from ..scheduler.cost.named_costs import policy_cost, true_cost
    from ..scheduler.simulation.cell import Setting, cell
    from .study_options import JOURNAL, facts, facts_line, open_study, progress, save_summary, variants

    kept = Kept(jobs, ray, out, resume, overwrite, plot=False)
    kept.check()
    decision_us = 1000 * milliseconds(decision_time, "--decision-time")
    share, nearness = percentage(good, "--good"), percentage(tolerance, "--tolerance")
    belief, real = policy_cost(cost, allow_refuted), true_cost(truth, cost, allow_refuted)
    setting = Setting(belief.name, real.name, criterion, max_running, kv_tokens, decision_us)
    asked = [
        (cell(policy_text, workload_text, 0, setting, **replaced), workload_text, replaced)
        for workload_text in split_list(workload, "--workload")
        for replaced in variants({"ttft": ttft, "tpot": tpot})
        for policy_text in split_list(policy, "--policy")
    ]
    ranges = [_range(first, low, high) for first, _, _ in asked]
    found: list[tuple[Cell, Capacity]] = []
    with open_study({named.name: named for named in (belief, real)}, kept) as study, progress() as bar:
        task = bar.add_task("capacities", total=len(asked))
        for (first, workload_text, replaced), (lowest, highest) in zip(asked, ranges, strict=True):

            def cell_of(
                rate: float, seed: int, first: Cell = first, text: str = workload_text, said: dict[str, str] = replaced
            ) -> Cell:
                return cell(first.policy, text, seed, setting, **{**said, "rate": repr(rate)})

            answer = search(_shares(study, cell_of, seeds), range(seeds), share, lowest, highest, nearness)
            found.append((first, answer))
            bar.advance(task)
    data: dict[str, Any] = facts(setting, real, seeds) | {"good": share, "tolerance": nearness}
    data["capacities"] = [_data(first, answer) for first, answer in found]
    shown: list[RenderableType] = [_table(found, share), facts_line(data)]
    if out is not None:
        shown.append(save_summary(data, [out / JOURNAL], out))
    emit_data(data, as_json, *shown)


def _shares(study: Study, cell_of: Callable[[float, int], Cell], seeds: int) -> Callable[[float, int], float]:
    """All seeds of a rate are played at once when the first of them is asked for."""

    def share(rate: float, seed: int) -> float:
        return study.reports([cell_of(rate, each) for each in range(seeds)])[seed].over_all.good_share

    return share


def _range(first: Cell, low: str | None, high: str | None) -> tuple[float, float]:
    """Raises UsageError for a rate that cannot be read, and where the workload has none to begin with."""
    from ..files.errors import UsageError
    from ..scheduler.workloads.registry import workload_spec

    def rate(text: str, option: str) -> float:
        try:
            return float(text.removesuffix("/s"))
        except ValueError:
            raise UsageError(f"{option} {text!r}: expected requests a second, such as 85 or 85/s") from None

    own = workload_spec(first.workload).options.rate
    if own is None and (low is None or high is None):
        raise UsageError(f"workload {first.workload}: it says no rate to search around; expected --low and --high")
    return (
        (own or 0) / 16 if low is None else rate(low, "--low"),
        (own or 0) * 16 if high is None else rate(high, "--high"),
    )


def _data(first: Cell, answer: Capacity) -> dict[str, Any]:
    return {
        "policy": first.policy,
        "workload": first.workload,
        "rate_per_s": answer.rate,
        "next_rate_that_fails_per_s": answer.above,
        "orderly": answer.orderly,
        "tried": [{"rate_per_s": tried.rate, "good_share": tried.good.model_dump()} for tried in answer.tried],
    }


def _table(found: list[tuple[Cell, Capacity]], share: float) -> Table:
    from rich.table import Table

    from ..scheduler.workloads.registry import workload_spec
    from .output import escape, percent

    table = Table(title=f"highest rate with {100 * share:g}% good", title_justify="left", box=None, pad_edge=False)
    for name in ("workload", "TTFT", "TPOT", "policy"):
        table.add_column(name)
    for name in ("requests/s", "good there", "fails at", "tried"):
        table.add_column(name, justify="right")
    best: dict[str, float] = {}
    for first, answer in found:
        best[first.workload] = max(best.get(first.workload, 0.0), answer.rate)
    for first, answer in found:
        spec = workload_spec(first.workload)
        texts = spec.options.texts(given=True)
        there = {tried.rate: tried.good.mean for tried in answer.tried}
        table.add_row(
            *(spec.name, texts.get("ttft", ""), texts.get("tpot", ""), escape(first.policy)),
            f"{answer.rate:.4g}" if answer.rate else "under the lowest",
            percent(there.get(answer.rate)) if answer.rate else "",
            "over the highest" if answer.above is None else f"{answer.above:.4g}",
            f"{len(answer.tried)}" + ("" if answer.orderly else ", not in order"),
            style="bold" if answer.rate and answer.rate == best[first.workload] else None,
        )
    if not all(answer.orderly for _, answer in found):
        table.caption = "not in order: the share went up and down with the rate, so this is one of several answers"
    return table
