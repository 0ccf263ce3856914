"""A live session's report for people: the curve, the rounds, the bounds, the simulator, what had to hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .output import escape, grid, percent

if TYPE_CHECKING:
    from rich.table import Table

    from ..scheduler.live.bound_coverage import BoundCoverage, Missed
    from ..scheduler.live.session_report import LiveReportV1, LiveRunV1
    from ..scheduler.live.soak import SoakReport


def report_shown(report: LiveReportV1) -> list[Table | str]:
    """Everything, top to bottom as a reader needs it; the verdict is last."""
    quiet = "green" if report.sentinel.quiet else "yellow"
    lines = [
        ("served on", escape(report.device)),
        ("targets", escape(report.targets.title())),
        ("machine", f"[{quiet}]{escape(report.sentinel.title())}[/]; {report.sentinel_level:.3f} of the expected time"),
    ]
    if report.calibrated is not None:
        lines.append(("calibrated", f"bounds times {report.calibrated.bound_factor:.3f} at the end"))
    lines += [("note", f"[yellow]{escape(note)}[/]") for note in report.notes]
    shown: list[Table | str] = [grid(lines)]
    whole = [run for run in report.runs if not run.stopped]
    on_curve = [run for run in whole if run.phase == "curve"]
    in_rounds = [run for run in whole if run.phase == "rounds"]
    if on_curve:
        shown.append(_curve(on_curve))
    if in_rounds:
        shown.append(_rounds(in_rounds, report))
    shown += [_bound_coverage(report), _decisions(report), _errors(report)]
    if report.simulator:
        shown.append(_simulator(report))
    shown.append(_checks(report))
    if report.stopped:
        shown.append("[yellow]stopped: this is what there is so far[/]")
    if report.inconclusive is not None:
        shown.append(f"[bold yellow]inconclusive:[/] {escape(report.inconclusive)}")
    return shown


def soak_shown(report: SoakReport) -> list[Table | str]:
    """The soak's counts and whether anything was lost or grew."""
    memory = f"{report.settled_mib:.1f} MiB settled, {report.end_mib:.1f} MiB at the end ({100 * report.growth:+.2f}%)"
    lines = [
        ("soaked", f"{report.seconds:.0f} s, {report.waves} waves, {report.requests:,} requests"),
        ("ended", f"{report.finished:,} finished, {report.refused:,} refused, {report.cancelled:,} cancelled"),
        ("preemptions", f"{report.preemptions:,}"),
        ("lost", f"{report.lost} requests, {report.short} short ones, {report.pages_lost} pages"),
        ("memory", memory),
    ]
    verdict = "[bold green]nothing was lost[/]" if report.held else "[bold red]something was lost or grew[/]"
    return [grid(lines), verdict]


def _table(title: str, *columns: str) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left", caption_justify="left", padding=(0, 0))
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right", no_wrap=index == 0)
    return table


def _curve(runs: list[LiveRunV1]) -> Table:
    policies = list(dict.fromkeys(run.report.policy for run in runs))
    table = _table("load: good requests/s (share that is good)", "rate /s", *policies)
    for rate in sorted({run.rate for run in runs}):
        cells = {run.report.policy: run.report.over_all for run in runs if run.rate == rate}
        table.add_row(
            f"{rate:.4g}",
            *(
                f"{cells[name].goodput_per_s:.4g} ({100 * cells[name].good_share:.0f}%)" if name in cells else ""
                for name in policies
            ),
        )
    return table


def _rounds(runs: list[LiveRunV1], report: LiveReportV1) -> Table:
    rates = sorted({run.rate for run in runs})
    table = _table(
        f"rounds at {', '.join(f'{rate:.4g}' for rate in rates)} requests/s, means over rounds; "
        f"criterion {report.criterion}",
        "policy",
        "rounds",
        "good /s",
        "good",
        "TTFT P50, P99",
        "P99 gap P50, P99",
        "J / good",
    )
    for name, spread in report.goodput.items():
        reports = [run.report for run in runs if run.report.policy == name]
        groups = [report.over_all for report in reports]
        table.add_row(
            name,
            str(spread.seeds),
            f"{spread.mean:.4g} [{spread.least:.3g}, {spread.most:.3g}]",
            f"{100 * sum(group.good_share for group in groups) / len(groups):.0f}%",
            f"{_mean([g.ttft_ms.p50 for g in groups])}, {_mean([g.ttft_ms.p99 for g in groups])}",
            f"{_mean([g.p99_gap_ms.p50 for g in groups])}, {_mean([g.p99_gap_ms.p99 for g in groups])}",
            _mean([report.joules_per_good for report in reports]),
        )
    table.caption = "good /s with the least and the most of the rounds; times in ms"
    return table


def _bound_coverage(report: LiveReportV1) -> Table:
    table = _table(
        "the bound against the clock, at the iterations that were chosen",
        "policy",
        "iterations",
        "over",
        "coverage [95%]",
        "over beside a chunk",
        "with host",
    )
    for name, coverage in report.bound_coverage.items():
        loop = coverage.closed_loop
        table.add_row(
            name,
            f"{loop.rows:,}",
            f"{loop.missed:,}",
            f"{percent(loop.coverage)} [{percent(loop.low)}, {percent(loop.high)}]",
            _share(coverage.chosen),
            _share(coverage.with_host),
        )
    table.caption = _coverage_caption(next(iter(report.bound_coverage.values()), None), report)
    return table


def _decisions(report: LiveReportV1) -> Table:
    table = _table(
        "decisions", "policy", "decision P50, P99 us", "host ms", "slack used P50, P99", "over slack", "worst T - E"
    )
    for name, coverage in report.bound_coverage.items():
        table.add_row(
            name,
            f"{_number(coverage.decision_p50_us)}, {_number(coverage.decision_p99_us)}",
            _number(coverage.host_mean_ms),
            f"{percent(coverage.budget_used_p50)}, {percent(coverage.budget_used_p99)}",
            percent(coverage.over_budget),
            f"{_number(coverage.worst_under_ms)} ms",
        )
    return table


def _coverage_caption(coverage: BoundCoverage | None, report: LiveReportV1) -> str:
    if coverage is None:
        return ""
    caption = f"certified coverage {percent(coverage.promised)}; over the bound in the table's own test session "
    caption += percent(coverage.marginal_miss)
    if report.calibrated is not None:
        by_table = ", ".join(f"{name} {_share(each.by_table)}" for name, each in report.bound_coverage.items())
        caption += f"; without the calibrator: {by_table}"
    return caption


def _errors(report: LiveReportV1) -> Table:
    table = _table("|T - E| / T by scene", "policy", "scene", "iterations", "median", "P90", "P99")
    for name, coverage in report.bound_coverage.items():
        for scene, error in coverage.errors.items():
            shares = (f"{value:.1f}%" for value in (error.median_percent, error.p90_percent, error.p99_percent))
            table.add_row(name, scene, f"{error.rows:,}", *shares)
    return table


def _simulator(report: LiveReportV1) -> Table:
    table = _table(
        "the simulator beside the device, same arrivals",
        "policy",
        "figure",
        "live",
        "by the table",
        "",
        "and T / E",
        "",
    )
    for name, figures in report.simulator.items():
        for figure, each in figures.items():
            cells = []
            for value in (each.by_table, each.by_residuals):
                difference = each.difference(value)
                cells += [_number(value), "" if difference is None else f"{100 * difference:+.1f}%"]
            table.add_row(name, figure.replace("_", " "), _number(each.live), *cells)
    table.caption = "T / E: what the live runs of the policy showed, two seconds at a time, drawn at random"
    return table


def _checks(report: LiveReportV1) -> Table:
    words = {True: "[green]pass[/]", False: "[red]FAIL[/]", None: "not measured"}
    table = _table("what has to hold", "what", "verdict", "figure", "limit")
    table.columns[0].no_wrap = False
    for check in report.checks:
        table.add_row(escape(check.name), words[check.held], _number(check.figure), f"{check.limit:g}")
    return table


def _share(missed: Missed) -> str:
    return f"{percent(missed.missed / missed.rows)} of {missed.rows:,}" if missed.rows else "none"


def _mean(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):.4g}" if known else "-"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
