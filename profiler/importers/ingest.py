"""A log to a profile: read by its format, cut into sessions, with what is known and what is not."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...files.errors import LogFormatError, UsageError
from ...files.records import SkippedRows
from ...tables.fingerprint import Fingerprint
from ..meta import ImportedFrom, ProfileMeta, known_aggregation
from ..profile import Profile
from .copies import independent
from .mapping import where_text
from .registry import log_format
from .samples import LoggedIteration, ReadOptions
from .sessions import DEFAULT_SHARES, Shares, columns_of, domain_of, parse_split, session_metas


@dataclass(frozen=True, slots=True)
class Ingested:
    """left_out: a line for each reason. unread: columns that were not read, with some of their values."""

    profile: Profile
    left_out: list[str]
    unread: dict[str, list[str]]


def ingest(
    name: str,
    path: str | Path,
    options: ReadOptions | None = None,
    *,
    split: str | None = None,
    shares: Shares = DEFAULT_SHARES,
    seed: int = 0,
    aggregation: str | None = None,
    stated: Fingerprint | None = None,
    since: str | None = None,
    until: str | None = None,
) -> Ingested:
    """The log at `path` in format `name` (a key of registry.FORMATS).

    split: None for what fits the format. since, until: the first and the last row that is kept, in the order of time: a
    number, or a share such as 27%. aggregation, stated: what the user knows and the file does not say.
    Raises UsageError (unknown format, options that do not fit it, a statement against the file), LogFormatError
    naming the place and column of what is not understood, or a file without a single iteration.
    """
    options = options or ReadOptions()
    form = log_format(name, options)
    source, left_out = str(path), SkippedRows()
    found = form.read(source, options, left_out)
    if not found.samples:
        reasons = "; ".join(left_out.lines()) or "it has no rows"
        raise LogFormatError(f"{source}: not one iteration in it ({reasons}); expected rows of format {name}")
    samples = _between(independent(found.samples, left_out), since, until, left_out)
    cut = parse_split(split or form.split)
    columns = columns_of(samples, cut, shares, seed)
    meta = ProfileMeta(
        fingerprint=_merged(found.known, stated or Fingerprint(), source),
        aggregation=_aggregation(found.aggregation, aggregation, source),
        domain=domain_of(samples),
        step_totals=(),
        seed=seed,
        plan_sha256="",
        sessions=session_metas(columns),
        clipped_fraction=0.0,
        imported=ImportedFrom(
            format=name.replace("_", "-"),
            file=Path(path).name,
            sha256=hashlib.sha256(Path(path).read_bytes()).hexdigest(),
            split=cut,
            shares_percent=shares,
            stated=_stated(options, aggregation, stated or Fingerprint())
            | {name: text for name, text in (("from", since), ("until", until)) if text is not None},
            left_out=left_out.counts(),
            unequal_contexts=sum(sample.unequal for sample in samples),
            several_chunks=sum(sample.several for sample in samples),
        ),
    )
    unread = {column: list(values) for column, values in found.unread.items()}
    return Ingested(Profile(meta, columns, source), left_out.lines(), unread)


def _between(
    samples: Sequence[LoggedIteration], since: str | None, until: str | None, left_out: SkippedRows
) -> Sequence[LoggedIteration]:
    """The rows from `since` to `until`, both included. Raises UsageError."""
    first = 1 if since is None else _row(since, len(samples), "--from")
    last = len(samples) if until is None else _row(until, len(samples), "--until")
    if first > last:
        raise UsageError(
            f"--from {since} --until {until}: rows {first:,} to {last:,} of {len(samples):,}; expected some"
        )
    for row in (*range(1, first), *range(last + 1, len(samples) + 1)):
        left_out.add("before --from or after --until", f"row {row}")
    return samples[first - 1 : last]


def _row(text: str, rows: int, option: str) -> int:
    """A row of 1 to `rows` from `1500` or `27%`; of a share the row at its end. Raises UsageError."""
    match = re.fullmatch(r"(\d+)|(\d+(?:\.\d+)?)%", text.strip())
    row = 0 if match is None else int(match[1]) if match[1] else max(1, round(float(match[2]) / 100 * rows))
    if not 1 <= row <= rows:
        raise UsageError(f"{option} {text!r}: expected a row from 1 to {rows:,}, or a share of them such as 27%")
    return row


def _aggregation(known: str, stated: str | None, source: str) -> str:
    """As `_merged`."""
    if stated is None:
        return known
    try:
        known_aggregation(stated)
    except ValueError as error:
        raise UsageError(f"--aggregation: {error}") from error
    if known not in ("unknown", stated):
        raise UsageError(f"--aggregation {stated}: {source} says {known}; leave the option out")
    return stated


def _merged(known: Fingerprint, stated: Fingerprint, source: str) -> Fingerprint:
    """What the file says and, where it does not, what the user says. Raises UsageError for a contradiction."""
    said = stated.model_dump(exclude_none=True)
    for field, value in said.items():
        if getattr(known, field) not in (None, value):
            raise UsageError(
                f"--{field.replace('_', '-')} {value!r}: {source} says {getattr(known, field)!r}; leave the option out"
            )
    return known.model_copy(update=said)


def _stated(options: ReadOptions, aggregation: str | None, stated: Fingerprint) -> dict[str, str]:
    said = {f"map {name}": text for name, text in options.mapping.items()}
    said |= {"unit": options.unit} if options.unit else {}
    said |= {"where": where_text(options.where)} if options.where else {}
    said |= {"aggregation": aggregation} if aggregation else {}
    return said | {field: str(value) for field, value in stated.model_dump(exclude_none=True).items()}
