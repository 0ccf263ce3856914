"""Evidence to the values of the page, those into its template, and the page to a file."""

from __future__ import annotations

import shlex
from importlib.resources import files
from os import PathLike
from typing import Any

import numpy as np

from ...files.writing import write_atomically
from ...profiler.condition import QUIET_RELATIVE_IQR, QUIET_TREND
from ...tables.fingerprint import Fingerprint, severity
from ..output import percent
from ..table_lines import evidence_lines
from . import figures
from .concerns import ConcernLevel, concerns
from .curves import panels
from .evidence import Evidence, misses
from .gap_map import flattened
from .svg import drawn

Facts = dict[str, Any]

INDENT = "\u2003"
UNKNOWN = "unknown"
CLASS_OF = {
    ConcernLevel.WRONG: "bad",
    ConcernLevel.WARNING: "warn",
    ConcernLevel.UNKNOWN: "warn",
    ConcernLevel.NOTE: "faint",
}
STATE = ("sm_clock_mhz", "temperature_c", "power_w")


def save_report(evidence: Evidence, path: str | PathLike[str]) -> None:
    """Write the page, whole or not at all. Raises StorageError; needs matplotlib and Jinja2 (extra `plot`).

    The same table, profile and versions give the same bytes.
    """
    write_atomically(path, report_html(evidence).encode())


def report_html(evidence: Evidence) -> str:
    """One document with everything in it."""
    from jinja2 import Environment, StrictUndefined

    page = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    page.filters["percent"] = percent
    source = files(__package__).joinpath("report.html.j2").read_text(encoding="utf-8")
    return page.from_string(source).render(facts(evidence))


def facts(evidence: Evidence) -> Facts:
    """Every value that the template shows, by the name it has there."""
    table, profile = evidence.table, evidence.profile_path.name
    shown = _curves(evidence)
    return {
        "title": table.fingerprint.title(),
        "findings": len(evidence.findings),
        "verdict": table.verdict,
        "grade_class": {"good": "good", "wide": "warn", "do not use": "bad"},
        "promise": _promise(evidence),
        "concerns": concerns(evidence),
        "class_of": CLASS_OF,
        "sections": {
            "curves": "T against c, with margin and raw rows" if shown else "T against c",
            "residuals": "Residuals by scene",
            "coverage": "Coverage with intervals",
            "gap": "Majorant gap: what monotonicity adds to the bound",
            "candidates": "Fitters that competed",
            "drift": "Drift of the sentinel, and the sessions",
            "fingerprint": "Fingerprint and domain",
        },
        "curves": shown,
        "residuals": _residuals(evidence),
        "coverage": _coverage(evidence),
        "gap": _gap(evidence),
        "candidates": _candidates(evidence),
        "drift": _drift(evidence),
        "fingerprint": [
            (
                name,
                "none or unknown" if value is None else _plain(value),
                severity(name).value,
                Fingerprint.model_fields[name].description or "",
            )
            for name, value in table.fingerprint.model_dump().items()
        ],
        "domain": [
            (name, type(table.domain).model_fields[name].description or "", f"{value:,}")
            for name, value in table.domain.model_dump().items()
        ],
        "document": table,
        "table_name": evidence.table_path.name,
        "profile_name": profile,
        "command": f"chunkfit report {shlex.quote(evidence.table_path.name)} --profile {shlex.quote(profile)}",
    }


def _curves(evidence: Evidence) -> str | None:
    """T along c (decode: n), with margin and raw rows."""
    shown = panels(evidence)
    height = 3.1 * -(-len(shown) // 2) + 0.4
    alt = "time against chunk tokens, curves and raw rows"
    return drawn("curves", alt, height, figures.curves(shown)) if shown else None


def _residuals(evidence: Evidence) -> Facts | None:
    """Held-out errors, drawn and as the table stores them."""
    test, stored = evidence.readings.get("test"), evidence.table.test
    if test is None or stored is None:
        return None
    parts = [(scene, test.scene(scene)) for scene in test.rows.scenes()]
    rows = [
        (
            name,
            f"{e.rows:,}",
            *(f"{value:.2f}%" for value in (e.median_percent, e.mape_percent, e.p90_percent, e.p99_percent)),
            f"{e.worst_under_percent:.1f}%",
            f"{e.worst_under_ms:.3g}",
            f"{e.mean_bound_ratio:.3f}",
        )
        for name, e in stored.errors.items()
    ]
    return {"svg": drawn("residuals", "residuals of test rows by scene", 3.4, figures.residuals(parts)), "rows": rows}


def _coverage(evidence: Evidence) -> Facts | None:
    """Rows above the bound by session, scene and length of the iteration; the parts of the margin."""
    certificate, found = evidence.table.certificate, misses(evidence)
    if not found:
        return None
    draw = figures.coverage(found, None if certificate is None else certificate.coverage)
    margin = [
        (
            part.name.replace("_", " "),
            "all" if part.scene is None else part.scene.value,
            part.detail,
            "not measured" if part.factor is None else f"{part.factor:.4f}",
        )
        for part in evidence.table.margin
    ]
    svg = drawn("coverage", "share of rows above the bound", 0.3 * len(found) + 0.9, draw)
    return {"svg": svg, "test": evidence.table.test, "margin": margin}


def _gap(evidence: Evidence) -> Facts:
    """What closure added to the bound, where."""
    stored, repeat = evidence.table.gap, evidence.repeat
    if repeat is None:
        return {"stored": stored, "svg": None, "not_repeated": evidence.not_repeated}
    maps = [flattened(evidence, scene) for scene in evidence.scenes]
    return {
        "stored": stored,
        "svg": drawn("gap", "map of the gap", 3.6, figures.gap_map(maps)),
        "nodes": sum(m.nodes for m in maps),
        "same": repeat.worst_difference == 0,
    }


def _candidates(evidence: Evidence) -> Facts:
    """Who competed, who won and why; the steps found."""
    fitter = evidence.table.fitter
    options, selection = fitter.options, fitter.options.get("selection")
    if not selection:
        return {"selection": None, "name": fitter.name}
    found = selection["candidates"]
    scored = [(c["name"], c["pinball_50_percent"]) for c in found if c["pinball_50_percent"]]
    draw, height = figures.candidates(scored, fitter.name), 0.35 * len(scored) + 1.2
    names = {"pinball_50_percent": "E", "pinball_99_percent": "bound"}
    kinds = list(dict.fromkeys((key, kind) for c in found for key in names for kind in c[key]))
    return {
        "selection": selection,
        "options": options,
        "svg": drawn("candidates", "held-out losses of the fitters", height, draw) if scored else None,
        "headers": ["fitter", *(f"{names[key]}, {kind}" for key, kind in kinds)],
        "rows": [
            (c["name"], *(f"{c[key][kind]:.3f}%" if kind in c[key] else "" for key, kind in kinds))
            for c in found
            if c["reason"] is None
        ],
        "steps": [
            (
                f"{step['total']:,}",
                "{:,} to {:,}".format(*step["between"]),
                f"{step['rise_percent']:.1f}%",
                f"{step['standard_errors']:.0f}",
                *(f"{count:,}" for count in step["points"]),
            )
            for step in options.get("steps_found") or ()
        ],
    }


def _drift(evidence: Evidence) -> Facts:
    """The sentinel in its sessions, and what is known of them."""
    sentinel, sessions = evidence.profile.select(role="sentinel").columns, evidence.profile.meta.sessions
    shown = [
        (name, sentinel["order"][mask], sentinel["latency_ms"][mask])
        for name in sessions
        for mask in [sentinel["session"] == name]
        if mask.any()
    ]
    alt = "times of the sentinel in each session"
    return {
        "svg": drawn("drift", alt, 2.8, figures.drift(shown)) if shown else None,
        "quiet": (QUIET_RELATIVE_IQR, QUIET_TREND),
        "sessions": sessions,
        "rows": [
            (
                name,
                session.started_at or UNKNOWN,
                *(f"{v:,}" for v in (session.planned, session.points, session.rows, session.flagged, session.skipped)),
                f"{session.seconds:,.0f}",
                *(_range(evidence, name, column) for column in STATE),
            )
            for name, session in sessions.items()
        ],
    }


def _range(evidence: Evidence, session: str, column: str) -> str:
    """Smallest to largest value that the device said in a session."""
    values = evidence.profile.columns[column][evidence.profile.columns["session"] == session]
    known = values[~np.isnan(values)]
    return f"{known.min():.0f} to {known.max():.0f}" if len(known) else UNKNOWN


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _promise(evidence: Evidence) -> list[tuple[str, str]]:
    """What `chunkfit show` prints, with the law and the sessions it rests on."""
    from rich.text import Text

    certificate = evidence.table.certificate
    shown = [
        (label.replace("  ", INDENT), Text.from_markup(value).plain) for label, value in evidence_lines(evidence.table)
    ]
    law = [] if certificate is None else [("on which batches", certificate.law)]
    return [shown[0], ("sessions", _sessions(evidence)), *shown[1:2], *law, *(pair for pair in shown[2:] if pair[0])]


def _sessions(evidence: Evidence) -> str:
    meta = evidence.profile.meta
    parts = [f"{name} {session.points:,} points, {session.rows:,} rows" for name, session in meta.sessions.items()]
    started = min((session.started_at for session in meta.sessions.values() if session.started_at), default=None)
    origin = (
        f"begun {started or 'at an unknown time'}" if meta.imported is None else f"imported from {meta.imported.file}"
    )
    return f"{'; '.join(parts)}; a row is: {meta.aggregation}; {origin}"
