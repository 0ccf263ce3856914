"""What a table promises and what it rests on, for people and as the summary's JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .output import escape, percent

if TYPE_CHECKING:
    from ..fitters.metrics import WeightedCoverage
    from ..tables import CostTable
    from ..tables.schema_v1 import CountsV1, FactorsV1, TableV1
    from ..tables.support import SupportKind

LOUD_DRIFT = 1.05  # between sessions; above it the machine is not quiet, whatever a sentinel says


def summary_of(table: TableV1) -> dict[str, Any]:
    """The figures of a table without its nodes."""
    dumped = table.model_dump(mode="json")
    kept = ("content_sha256", "created_by", "fingerprint", "aggregation", "profile_sha256", "domain", "fitter")
    summary = {key: dumped[key] for key in kept}
    summary["synthetic"] = table.fingerprint.synthetic
    summary["axes"] = {name: axis["knots"] for name, axis in dumped["axes"].items()}
    judged = ("observed", "margin", "factors", "verdict", "certificate", "price", "test", "gap")
    return summary | {key: dumped[key] for key in judged}


GRADE_STYLES = {"good": "green", "wide": "yellow", "do not use": "bold red"}


def verdict_lines(table: TableV1) -> list[tuple[str, str]]:
    """The grade, then each concern with its reason and what to do."""
    if table.verdict is None:
        return []
    grade = table.verdict.grade.value
    lines = [("verdict", f"[{GRADE_STYLES[grade]}]{grade}[/]")]
    for concern in table.verdict.concerns:
        advice = f": {concern.advice}" if concern.advice else ""
        lines.append((f"  {concern.name.replace('_', ' ')}", escape(concern.reason + advice)))
    return lines


def verdict_line(table: TableV1) -> list[tuple[str, str]]:
    """One line for every command that uses the table: the grade and the first reason for it."""
    if table.verdict is None:
        return []
    grade = table.verdict.grade.value
    return [("verdict", f"[{GRADE_STYLES[grade]}]{escape(table.verdict.title())}[/]")]


def evidence_lines(table: TableV1) -> list[tuple[str, str]]:
    """Label and value lines; synthetic tables say so first."""
    lines = [("measured on", escape(table.fingerprint.title()))]
    certificate, test, gap = table.certificate, table.test, table.gap
    if certificate:
        lines.append(
            (
                "certified coverage",
                f"[bold]{certificate.coverage:.3g}[/] at {certificate.confidence:.2g} confidence: "
                f"{certificate.exceedances} of {certificate.rows} calibration rows above the bound, "
                f"{certificate.allowed} allowed ({certificate.points} points)",
            )
        )
    else:
        lines.append(("certified coverage", "[yellow]nothing is certified: bounds are expected times[/]"))
    if table.price:
        priced = ", ".join(f"{100 * one.coverage:g}% {one.mean_bound_ratio:.3f}" for one in table.price)
        lines.append(("price of the promise", f"mean U/T at {priced}"))
    if test:
        lines.append(("test coverage", _counts(test.coverage)))
        for scene, count in test.scenes.items():
            lines.append((f"  {scene.value}", _counts(count)))
        if test.unflagged.rows != test.coverage.rows:
            lines.append(("  not throttled", _counts(test.unflagged)))
        every = test.errors["all"]
        lines += [
            (
                "held-out error",
                f"median {every.median_percent:.2f}%, mean {every.mape_percent:.2f}%, P99 {every.p99_percent:.1f}%; "
                f"worst under-prediction {every.worst_under_ms:.3g} ms ({every.worst_under_percent:.1f}%)",
            ),
            ("mean U/T", f"{every.mean_bound_ratio:.3f}"),
        ]
    if gap:
        where = "" if gap.where is None else " at " + ", ".join(f"{axis} {value}" for axis, value in gap.where.items())
        lines.append(
            (
                "majorant gap",
                f"mean {gap.mean_percent:.2f}%, P99 {gap.p99_percent:.2f}%, largest node {gap.max_node_percent:.1f}%"
                f"{where}; {percent(gap.inversions)} of neighbouring nodes fell before closure",
            )
        )
    drift = table.factors.session_drift
    lines.append(("session drift", "not measured" if drift is None else f"factor {drift:.4f}, inside the bound"))
    for name, factor in (
        ("unequal contexts", table.factors.unequal_contexts),
        ("several chunks", table.factors.several_chunks),
    ):
        known = "not measured" if factor is None else f"factor {factor:.4f}, on the bound of such batches alone"
        lines.append((name, known))
    if test and drift is not None and drift > LOUD_DRIFT:
        lines.append(("", f"[yellow]sessions differ by {100 * (drift - 1):.0f}%: this machine is not quiet[/]"))
    return lines


def usual_context(table: CostTable) -> int:
    """The median context k of the rows that a table was fitted on; a middle knot where it does not say."""
    seen = table.document.observed.get("context_tokens")
    axis = table.arrays.axes.context_tokens
    return axis[len(axis) // 2] if seen is None else max(seen.median, 1)


def support_line(table: CostTable, kind: SupportKind | None) -> str:
    """What an answer rests on, in words."""
    pinned = [] if table.arrays.support is None else table.arrays.support.pinned().items()
    alone = "".join(f"; {axis.replace('_', ' ')}: only {value:,} was measured" for axis, value in pinned)
    texts = {
        "measured": "batches like it were measured",
        "by order": "[yellow]no batch like it was measured: the bound is that of measured batches with more work[/]",
    }
    return texts.get(str(kind), "[yellow]nothing: no batch with as much work was measured[/]") + alone


def factors_line(factors: FactorsV1) -> str:
    """The factors on the bound of unequal contexts and of several chunks, and what a missing one means."""
    named = {"unequal contexts": factors.unequal_contexts, "several chunks": factors.several_chunks}
    known = [f"{name} x {factor:.3g}" for name, factor in named.items() if factor is not None]
    missing = [name for name, factor in named.items() if factor is None]
    unknown = f"[yellow]{' and '.join(missing)}: not measured, so the bound promises nothing of such batches[/]"
    return ", ".join(known + ([unknown] if missing else []))


def fitter_lines(table: TableV1) -> list[tuple[str, str]]:
    """Which fitter won and why, each candidate's held-out losses or why it has none, and the steps found."""
    selection = table.fitter.options.get("selection")
    if not selection:
        return [("fitter", escape(table.fitter.name))]
    lines = [("fitter", escape(selection["why"]))]
    for candidate in selection["candidates"]:
        label = f"  {escape(candidate['name'])}"
        if candidate["reason"] is not None:
            lines.append((label, f"[yellow]not fitted: {escape(candidate['reason'])}[/]"))
            continue
        expected = ", ".join(f"{folds} {loss:.3f}%" for folds, loss in candidate["pinball_50_percent"].items())
        bound = ", ".join(f"{scale} {loss:.3f}%" for scale, loss in candidate["pinball_99_percent"].items())
        lines.append((label, f"held-out pinball at 0.5 by fold: {expected}; at 0.99 by scale: {bound}"))
    for step in table.fitter.options.get("steps_found", []):
        (low, high), (before, after) = step["between"], step["points"]
        lines.append(
            (
                "step found",
                f"n + c = {step['total']}: {step['rise_percent']:.1f}% between {low} and {high} tokens, "
                f"{step['standard_errors']:.0f} standard errors, {before} and {after} points around it",
            )
        )
    return lines


def traffic_lines(found: WeightedCoverage | None) -> list[tuple[str, str]]:
    """Label and value of the coverage weighted by traffic, if there is one."""
    if found is None:
        return []
    text = (
        f"{percent(found.coverage)} of the test session weighted by the traffic's cells, which holds "
        f"{percent(found.seen)} of the traffic and says as much as {found.rows:.0f} rows; not certified"
    )
    return [("by traffic", text)]


def _counts(count: CountsV1) -> str:
    if not count.rows:
        return "no rows"
    return f"{percent(count.coverage)} [{percent(count.low)}, {percent(count.high)}]  {count.covered} of {count.rows}"
