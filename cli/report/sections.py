"""The parts of the page below the first screen: a figure, its n, and the numbers behind it as a table."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...profiler.condition import QUIET_RELATIVE_IQR, QUIET_TREND
from ...tables.fingerprint import Fingerprint, severity
from ..output import percent
from . import figures
from .curves import panels
from .evidence import Evidence, misses
from .gap_map import flattened
from .html import Section, figure, paragraph, table
from .svg import drawn

UNKNOWN = "unknown"
STATE = {"SM clock, MHz": "sm_clock_mhz", "temperature, C": "temperature_c", "power, W": "power_w"}


def curves(evidence: Evidence) -> Section:
    """T along c (decode: n), with margin and raw rows."""
    shown = panels(evidence)
    if not shown:
        return Section("curves", "T against c", paragraph("no test rows: nothing to hold the curves against", "warn"))
    rows = -(-len(shown) // 2)
    svg = drawn("curves", "time against chunk tokens, curves and raw rows", 3.1 * rows + 0.4, figures.curves(shown))
    caption = (
        "Dots are raw rows of the test session: one iteration each, never averaged, seen by no fit. The grey line "
        "behind a dot spans from expected to bound of that row's own n, k, c, u, which is what counts. The blue curve "
        "is one state only, the median of the panel's rows, so dots of other states need not lie on it. Log scales."
    )
    return Section("curves", "T against c, with margin and raw rows", figure(svg, caption))


def residuals(evidence: Evidence) -> Section:
    """Held-out errors, drawn and as the table stores them."""
    test, stored = evidence.readings.get("test"), evidence.table.test
    title = "Residuals by scene"
    if test is None or stored is None:
        return Section("residuals", title, paragraph("no test session", "warn"))
    parts = [(scene, test.scene(scene)) for scene in test.rows.scenes()]
    svg = drawn("residuals", "residuals of test rows by scene", 3.4, figures.residuals(parts))
    caption = "Test session, one row per point: measured over expected time, and the bound of each row, as it is read."
    numbers = table(
        ("scene", "rows", "median", "mean", "P90", "P99", "worst T over E", "in ms", "mean U/T"),
        [
            (
                name,
                f"{e.rows:,}",
                *(f"{value:.2f}%" for value in (e.median_percent, e.mape_percent, e.p90_percent, e.p99_percent)),
                f"{e.worst_under_percent:.1f}%",
                f"{e.worst_under_ms:.3g}",
                f"{e.mean_bound_ratio:.3f}",
            )
            for name, e in stored.errors.items()
        ],
    )
    note = paragraph(
        "Absolute errors in percent of the measured time, as the table stores them. Worst: the largest (T - E) / T, "
        "and the largest T - E in ms.",
        "faint",
    )
    return Section("residuals", title, figure(svg, caption) + numbers + note)


def coverage(evidence: Evidence) -> Section:
    """Rows above the bound by session, scene and length of the iteration; the parts of the margin."""
    certificate, test, found = evidence.table.certificate, evidence.table.test, misses(evidence)
    title = "Coverage with intervals"
    if not found:
        return Section("coverage", title, paragraph("no calibration or test rows", "warn"))
    promised = None if certificate is None else certificate.coverage
    svg = drawn("coverage", "share of rows above the bound", 0.3 * len(found) + 0.9, figures.coverage(found, promised))
    caption = (
        "Rows above the bound of all rows. The calibration session set the margin, so its own count says little; the "
        "test session was read once, at the end. Each interval stands by itself: of twenty, one misses. The "
        "certificate is about all rows together; an orange interval lies wholly above what is allowed."
    )
    body = figure(svg, caption)
    if test is not None and test.block_low is not None:
        body += paragraph(
            f"Test coverage when whole points are drawn again (bootstrap): {percent(test.block_low)} to "
            f"{percent(test.block_high)}. Without rows under a throttle: {percent(test.unflagged.coverage)} of "
            f"{test.unflagged.rows:,}."
        )
    parts = [
        (
            part.name.replace("_", " "),
            "all" if part.scene is None else part.scene.value,
            part.detail,
            "not measured" if part.factor is None else f"{part.factor:.4f}",
        )
        for part in evidence.table.margin
    ]
    body += "<h3>Parts of the margin</h3>" + table(("part", "scene", "how", "factor"), parts, text_columns=3)
    return Section("coverage", title, body)


def gap(evidence: Evidence) -> Section:
    """What closure added to the bound, where."""
    stored, repeat = evidence.table.gap, evidence.repeat
    title = "Majorant gap: what monotonicity adds to the bound"
    body = ""
    if stored is not None:
        fell = "unknown" if stored.inversions is None else percent(stored.inversions)
        body += paragraph(
            f"Over the test rows: mean {stored.mean_percent:.2f}%, P99 {stored.p99_percent:.2f}%. Largest at a "
            f"measured node: {stored.max_node_percent:.1f}%. Of neighbouring measured nodes {fell} fell before closure."
        )
    if repeat is None:
        return Section("gap", title, body + paragraph(f"No map: {evidence.not_repeated}", "warn"))
    same = "the same bounds, to the tick" if repeat.worst_difference == 0 else "other bounds (see the first screen)"
    maps = [flattened(evidence, scene) for scene in evidence.scenes]
    caption = (
        f"Bound over bound before closure, less one, at n = {sum(m.nodes for m in maps):,} nodes; a cell is the "
        "largest over the coordinates that are not shown. Dots: nodes with fit rows around them. "
        f"The table stores no bound before closure, so the fit was done again from the profile: it gave {same}."
    )
    return Section("gap", title, body + figure(drawn("gap", "map of the gap", 3.6, figures.gap_map(maps)), caption))


def candidates(evidence: Evidence) -> Section:
    """Who competed, who won and why; the steps found."""
    fitter = evidence.table.fitter
    selection = fitter.options.get("selection")
    title = "Fitters that competed"
    if not selection:
        return Section("candidates", title, paragraph(f"{fitter.name}; the table says nothing of others"))
    body = paragraph(selection["why"])
    scored = [(c["name"], c["pinball_50_percent"]) for c in selection["candidates"] if c["pinball_50_percent"]]
    if scored:
        svg = drawn(
            "candidates",
            "held-out losses of the fitters",
            0.35 * len(scored) + 1.2,
            figures.candidates(scored, fitter.name),
        )
        body += figure(
            svg,
            f"n = {fitter.options['fit_points']:,} points, {fitter.options['fit_rows']:,} rows of the fit session. "
            "Left out in turn: whole points, ranges of values and, of joined profiles, sessions. No test row "
            "had a say. Ties: the simpler.",
        )
    names = {"pinball_50_percent": "E", "pinball_99_percent": "bound"}
    kinds = list(dict.fromkeys((key, kind) for c in selection["candidates"] for key in names for kind in c[key]))
    body += table(
        ("fitter", *(f"{names[key]}, {kind}" for key, kind in kinds)),
        [
            (c["name"], *(f"{c[key][kind]:.3f}%" if kind in c[key] else "" for key, kind in kinds))
            for c in selection["candidates"]
            if c["reason"] is None
        ],
    )
    for c in selection["candidates"]:
        if c["reason"] is not None:
            body += paragraph(f"{c['name']} did not compete: {c['reason']}")
    body += paragraph(
        "E: pinball loss at 0.5 by what was left out. Bound: pinball loss at 0.99 by the shape of the noise; the "
        f"table's is {fitter.options['scale']}.",
        "faint",
    )
    steps = fitter.options.get("steps_found")
    if steps:
        body += "<h3>Steps found in n + c</h3>" + table(
            ("n + c", "between", "rise", "standard errors", "points below", "points above"),
            [
                (
                    f"{step['total']:,}",
                    "{:,} to {:,}".format(*step["between"]),
                    f"{step['rise_percent']:.1f}%",
                    f"{step['standard_errors']:.0f}",
                    *(f"{count:,}" for count in step["points"]),
                )
                for step in steps
            ],
            text_columns=0,
        )
    return Section("candidates", title, body)


def drift(evidence: Evidence) -> Section:
    """The sentinel in its sessions, and what is known of them."""
    title = "Drift of the sentinel, and the sessions"
    sentinel = evidence.profile.select(role="sentinel").columns
    shown = [
        (name, sentinel["order"][mask], sentinel["latency_ms"][mask])
        for name in evidence.profile.meta.sessions
        for mask in [sentinel["session"] == name]
        if mask.any()
    ]
    if shown:
        caption = (
            "One point, measured again and again: what moves here is the machine, not the batch. Blue line: the "
            f"session's median. Quiet: relative IQR under {QUIET_RELATIVE_IQR:.0%} and trend under {QUIET_TREND:.0%}."
        )
        body = figure(drawn("drift", "times of the sentinel in each session", 2.8, figures.drift(shown)), caption)
    else:
        body = paragraph("Unknown: no sentinel was measured, so nothing says whether the machine was quiet.", "warn")
    for name, session in evidence.profile.meta.sessions.items():
        body += paragraph(f"{name}: {session.sentinel.title()}")
    body += table(
        ("session", "started", "planned", "points", "rows", "throttled", "skipped", "seconds", *STATE),
        [
            (
                name,
                session.started_at or UNKNOWN,
                *(f"{v:,}" for v in (session.planned, session.points, session.rows, session.flagged, session.skipped)),
                f"{session.seconds:,.0f}",
                *(_range(evidence, name, column) for column in STATE.values()),
            )
            for name, session in evidence.profile.meta.sessions.items()
        ],
        text_columns=2,
    )
    return Section("drift", title, body)


def _range(evidence: Evidence, session: str, column: str) -> str:
    """Smallest to largest value that the device said in a session."""
    values = evidence.profile.columns[column][evidence.profile.columns["session"] == session]
    known = values[~np.isnan(values)]
    return f"{known.min():.0f} to {known.max():.0f}" if len(known) else UNKNOWN


def fingerprint(evidence: Evidence) -> Section:
    """On what it was measured, and for which batches it answers."""
    facts: Fingerprint = evidence.table.fingerprint
    rows = [
        (
            name,
            "none or unknown" if value is None else _plain(value),
            severity(name).value,
            Fingerprint.model_fields[name].description or "",
        )
        for name, value in facts.model_dump().items()
    ]
    body = paragraph("A difference means: refuse - another table is needed; warn - check the coverage again; note.")
    body += table(("field", "value", "a difference", "what it is"), rows, text_columns=4)
    domain = evidence.table.domain
    body += "<h3>Domain</h3>" + table(
        ("limit", "what it is", "value"),
        [
            (name, type(domain).model_fields[name].description or "", f"{v:,}")
            for name, v in domain.model_dump().items()
        ],
        text_columns=2,
    )
    body += paragraph("Outside it the table refuses.", "faint")
    return Section("fingerprint", "Fingerprint and domain", body)


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


SECTIONS: tuple[Callable[[Evidence], Section], ...] = (
    curves,
    residuals,
    coverage,
    gap,
    candidates,
    drift,
    fingerprint,
)
