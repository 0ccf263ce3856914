"""Evidence to the page, and the page to a file."""

from __future__ import annotations

import shlex
from html import escape
from os import PathLike

from ...files.writing import write_atomically
from ..table_lines import evidence_lines
from .concerns import Concern, Grade, concerns
from .evidence import Evidence
from .html import lines, page
from .sections import SECTIONS

INDENT = "\u2003"
CLASS_OF = {Grade.WRONG: "bad", Grade.WARNING: "warn", Grade.UNKNOWN: "warn", Grade.NOTE: "faint"}


def save_report(evidence: Evidence, path: str | PathLike[str]) -> None:
    """Write the page, whole or not at all. Raises StorageError; needs matplotlib (extra `plot`).

    The same table, profile and versions give the same bytes.
    """
    write_atomically(path, report_html(evidence).encode())


def report_html(evidence: Evidence) -> str:
    """One document with everything in it."""
    title = evidence.table.fingerprint.title()
    sections = [section(evidence) for section in SECTIONS]
    links = " | ".join(f'<a href="#{section.key}">{escape(section.title)}</a>' for section in sections)
    claim = "What the file claims" if evidence.findings else "What is certified"
    head = "\n".join(
        [
            "<h1>Cost table of an iteration: how long, and how sure</h1>",
            f"<p>{escape(title)}</p>",
            _verdict(evidence),
            '<div class="first">',
            f"<div><h3>{claim}</h3>{_promise(evidence)}</div>",
            f"<div><h3>What is wrong, thin or unknown</h3>{_list(concerns(evidence))}</div>",
            "</div>",
            f"<nav><p>{links}</p></nav>",
        ]
    )
    return page(f"chunkfit: {title}", head, sections, _foot(evidence))


def _verdict(evidence: Evidence) -> str:
    if evidence.findings:
        many = f"{len(evidence.findings)} finding{'s' if len(evidence.findings) > 1 else ''}"
        text = (
            f"NOT VALID: {many} of chunkfit validate, listed below. Figures on this page are as the file states them "
            "or as its bounds give them; do not schedule with this table."
        )
        return f'<p class="verdict bad">{escape(text)}</p>'
    text = "Valid: structure and checksum hold, and every certificate and error was recomputed from the profile."
    return f'<p class="verdict good">{escape(text)}</p>'


def _promise(evidence: Evidence) -> str:
    """What `chunkfit show` prints, with the law and the sessions it rests on."""
    from rich.text import Text

    certificate = evidence.table.certificate
    shown = [
        (label.replace("  ", INDENT), Text.from_markup(value).plain) for label, value in evidence_lines(evidence.table)
    ]
    law = [] if certificate is None else [("on which batches", certificate.law)]
    return lines(
        [shown[0], ("sessions", _sessions(evidence)), *shown[1:2], *law, *(pair for pair in shown[2:] if pair[0])]
    )


def _sessions(evidence: Evidence) -> str:
    meta = evidence.profile.meta
    parts = [f"{name} {session.points:,} points, {session.rows:,} rows" for name, session in meta.sessions.items()]
    started = min((session.started_at for session in meta.sessions.values() if session.started_at), default=None)
    origin = (
        f"begun {started or 'at an unknown time'}" if meta.imported is None else f"imported from {meta.imported.file}"
    )
    return f"{'; '.join(parts)}; a row is: {meta.aggregation}; {origin}"


def _list(found: list[Concern]) -> str:
    if not found:
        return "<p>Nothing that this page knows to look for.</p>"
    items = (f'<li><b class="{CLASS_OF[c.level]}">{c.level.value}</b> {escape(c.text)}</li>' for c in found)
    return f"<ul>{''.join(items)}</ul>"


def _foot(evidence: Evidence) -> str:
    table = evidence.table
    command = (
        f"chunkfit report {shlex.quote(evidence.table_path.name)} --profile {shlex.quote(evidence.profile_path.name)}"
    )
    parts = [
        f"Table {evidence.table_path.name}, content sha256 {table.content_sha256}, by {table.created_by}.",
        f"Profile {evidence.profile_path.name}, sha256 {table.profile_sha256 or 'not named by the table'}.",
        f"This page again: {command}",
    ]
    return "<br>".join(escape(part) for part in parts)
