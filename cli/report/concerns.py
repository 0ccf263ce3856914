"""What a reader has to know before trusting the table: what is wrong, what is thin, what nobody measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ...fitters.margin import points_needed
from ...tables.batch import Scene
from ...tables.fingerprint import Severity, severity
from ..table_lines import LOUD_DRIFT
from .evidence import Evidence

FEW_NODES_WITH_DATA = 0.5
LOUD_GAP_PERCENT = 10.0


class ConcernLevel(StrEnum):
    """How bad it is, worst first."""

    WRONG = "wrong"
    WARNING = "warning"
    UNKNOWN = "unknown"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Concern:
    level: ConcernLevel
    text: str


def concerns(evidence: Evidence) -> list[Concern]:
    """Every one of them, worst first."""
    found = [Concern(ConcernLevel.WRONG, str(finding)) for finding in evidence.findings]
    for source in (_origin, _machine, _coverage, _factors, _grid, _fit):
        found += source(evidence)
    rank = list(ConcernLevel)
    return sorted(found, key=lambda concern: rank.index(concern.level))


def _origin(evidence: Evidence) -> Iterator[Concern]:
    table, imported = evidence.table, evidence.profile.meta.imported
    if table.fingerprint.synthetic:
        yield Concern(ConcernLevel.WARNING, "synthetic: the times come from a formula, no device was measured")
    if table.aggregation != "iteration":
        yield Concern(ConcernLevel.WRONG, f"a row is {table.aggregation!r}, no single iteration: no P99 can rest on it")
    if imported is not None:
        facts = table.fingerprint.model_dump()
        unknown = [name for name, value in facts.items() if value is None and severity(name) is Severity.REFUSE]
        if unknown:
            yield Concern(
                ConcernLevel.UNKNOWN,
                f"{', '.join(unknown)}: nothing can tell whether this table is for your device and engine",
            )
        stated = "; ".join(f"{name} = {value}" for name, value in imported.stated.items())
        yield Concern(
            ConcernLevel.NOTE,
            f"imported from {imported.file} ({imported.format}), sessions cut by {imported.split}; stated by the user "
            f"and not by the log: {stated or 'nothing'}",
        )
        if imported.unequal_contexts or imported.several_chunks:
            yield Concern(
                ConcernLevel.NOTE,
                f"as far as the log says {imported.unequal_contexts:,} rows have unequal contexts and "
                f"{imported.several_chunks:,} several chunks; they stand by mean context and sums",
            )
    if table.profile_sha256 is None:
        yield Concern(
            ConcernLevel.UNKNOWN, "the table names no profile file; its figures were recomputed from the one given"
        )


def _machine(evidence: Evidence) -> Iterator[Concern]:
    meta = evidence.profile.meta
    if meta.imported is not None:
        yield Concern(ConcernLevel.UNKNOWN, "whether the machine was quiet: a log has no sentinel")
    for name, session in meta.sessions.items():
        quiet = session.sentinel.quiet
        if quiet is None and meta.imported is None:
            yield Concern(
                ConcernLevel.UNKNOWN, f"session {name}: whether the machine was quiet is {session.sentinel.title()}"
            )
        elif quiet is False:
            yield Concern(ConcernLevel.WARNING, f"session {name}: the machine was {session.sentinel.title()}")
        if session.flagged:
            yield Concern(
                ConcernLevel.WARNING,
                f"session {name}: {session.flagged:,} of {session.points:,} points under a throttle",
            )
        if session.skipped:
            yield Concern(ConcernLevel.WARNING, f"session {name}: {session.skipped:,} points did not fit the device")
        missing = session.planned - session.points - session.skipped
        if missing > 0:
            yield Concern(
                ConcernLevel.WARNING,
                f"session {name}: {missing:,} of {session.planned:,} planned points were not measured",
            )
    drift = evidence.table.factors.session_drift
    if drift is None:
        yield Concern(
            ConcernLevel.UNKNOWN, "drift between sessions: not measured, so the bound holds no reserve for it"
        )
    elif drift > LOUD_DRIFT:
        yield Concern(
            ConcernLevel.WARNING, f"sessions differ by {100 * (drift - 1):.0f}%: the next one may differ as much"
        )


def _coverage(evidence: Evidence) -> Iterator[Concern]:
    certificate, test = evidence.table.certificate, evidence.table.test
    absent = [scene.value for scene in Scene if scene not in evidence.arrays.ladders]
    if absent:
        yield Concern(ConcernLevel.WARNING, f"no table for {' and '.join(absent)} batches: it refuses them")
    if certificate is None:
        yield Concern(ConcernLevel.WRONG, "nothing is certified: the bound is a guess")
        return
    needed = points_needed(certificate.coverage, certificate.confidence)
    thin = [f"{s.value} {count.points:,}" for s, count in certificate.scenes.items() if count.points < needed]
    if thin:
        yield Concern(
            ConcernLevel.WARNING,
            f"thin scenes, in calibration points: {', '.join(thin)}; {certificate.coverage:g} of a scene by itself "
            f"takes {needed:,}: the certificate is about all scenes together",
        )
    for scene, count in test.scenes.items() if test else ():
        if count.high is not None and count.high < certificate.coverage:
            yield Concern(
                ConcernLevel.WARNING,
                f"{scene.value}: {count.covered:,} of {count.rows:,} test rows are within the bound (upper 95% limit "
                f"{100 * count.high:.2f}%), fewer than the {certificate.coverage:g} of all scenes together",
            )


def _factors(evidence: Evidence) -> Iterator[Concern]:
    factors = evidence.table.factors
    for name, factor in (
        ("unequal contexts", factors.unequal_contexts),
        ("several chunks", factors.several_chunks),
    ):
        if factor is None:
            yield Concern(
                ConcernLevel.UNKNOWN,
                f"batches with {name}: not measured, their bound is that of equal ones and promises nothing",
            )


def _grid(evidence: Evidence) -> Iterator[Concern]:
    for scene in evidence.scenes:
        measured = evidence.arrays.measured[scene]
        share = float(np.mean(measured))
        if share < FEW_NODES_WITH_DATA:
            yield Concern(
                ConcernLevel.WARNING,
                f"{scene.value}: {int(measured.sum()):,} of {measured.size:,} nodes of the grid have fit rows around "
                "them; the others hold what the model says",
            )


def _fit(evidence: Evidence) -> Iterator[Concern]:
    repeat, gap = evidence.repeat, evidence.table.gap
    if repeat is None:
        yield Concern(ConcernLevel.UNKNOWN, f"the fit could not be done again: {evidence.not_repeated}")
    elif repeat.worst_difference > 0:
        yield Concern(
            ConcernLevel.WARNING,
            f"the fit, done again from the profile with the versions here, gives bounds that differ by up to "
            f"{100 * repeat.worst_difference:.2g}% at a node",
        )
    if gap is not None and gap.max_node_percent > LOUD_GAP_PERCENT:
        where = ", ".join(f"{axis} {value:,}" for axis, value in (gap.where or {}).items())
        yield Concern(
            ConcernLevel.WARNING,
            f"monotone closure raised a measured node's bound by {gap.max_node_percent:.0f}% ({where}): there the data "
            "fell as work grew, by noise or in truth",
        )
    for candidate in evidence.table.fitter.options.get("selection", {}).get("candidates", ()):
        if candidate["reason"] is not None:
            yield Concern(ConcernLevel.NOTE, f"fitter {candidate['name']} did not compete: {candidate['reason']}")
