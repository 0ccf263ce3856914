"""Does the profile support the table? Certificates, errors and the whole fit recomputed from it.

A table stores no bound before ordering, so the map of the gap needs the fit again: with the estimator, the noise scale
and the margins that the document names, without selection.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..files.errors import ChunkfitError, FitError
from ..profiler.profile import Profile, file_sha256
from ..tables.arrays import TableArrays, support_document
from ..tables.batch import Scene
from ..tables.check import validate_file
from ..tables.closure import read_surface
from ..tables.document import Finding
from ..tables.fingerprint import Severity, differences
from ..tables.grid import node_points
from ..tables.schema_v1 import TableV1
from .build import build_chosen, ladders_of
from .certify import certificate, closed_over_unclosed, law_of, tested
from .cross_validation import out_of_fold
from .estimators.registry import ESTIMATORS
from .margin import centred, pair_factor, points_needed, session_drift
from .noise import refitted
from .numerics import one_blas_thread
from .rows import Rows, held_out, rows_of, shared_rows
from .stalls import price
from .support import calibration_rows, measured_support
from .verdict import UNCERTIFIED, verdict_of

RELATIVE_TOLERANCE = 1e-9  # library versions may differ in the last digits of a beta quantile


def validate_with_profile(path: str | Path, profile_path: str | Path) -> tuple[TableV1 | None, list[Finding]]:
    """The table and every finding: of the file first, then of its evidence.

    Raises ProfileFormatError when the profile itself cannot be read.
    """
    table, findings = validate_file(path)
    if table is None:
        return None, findings
    return table, findings + evidence_findings(table, profile_path)


def evidence_findings(table: TableV1, profile_path: str | Path) -> list[Finding]:
    """What the profile says about the table's certificates. Raises ProfileFormatError for a bad profile."""
    profile = Profile.load(profile_path)
    findings = list(_provenance(table, profile, profile_path))
    arrays = TableArrays.of(table)
    stored = table.factors.model_dump(include={"unequal_contexts", "several_chunks"})
    fresh = {
        "unequal_contexts": pair_factor(profile, "unequal").factor,
        "several_chunks": pair_factor(profile, "chunks").factor,
    }
    findings += _compare(stored, fresh, "$.factors")
    try:
        calibrate, test = (held_out(profile, session, arrays.ladders) for session in ("calibrate", "test"))
        findings += _support(table, profile, calibrate)
        uncertain = list(_certificate(table, arrays, calibrate, law_of(profile.meta)))
        findings += uncertain
        answered = test.where(arrays.answers(test.points))
        findings += _test(table, arrays, answered)
        if not uncertain:  # the verdict and the price rest on the certificate
            findings += _verdict(table, profile, arrays, calibrate, test)
    except ChunkfitError as error:
        findings.append(Finding("evidence", str(profile_path), str(error)))
    return findings


def _support(table: TableV1, profile: Profile, calibrate: Rows) -> Iterator[Finding]:
    rows = rows_of(profile, "fit")
    rows = rows.where(rows.mask_of(table.scenes))
    fresh = measured_support(profile, rows, rows if table.certificate is None else calibrate)
    document = None if fresh is None else support_document(fresh)
    if document != table.support:
        yield Finding("evidence", "$.support", "differs from the boxes that the profile has rows in and around")


def _verdict(table: TableV1, profile: Profile, arrays: TableArrays, calibrate: Rows, test: Rows) -> Iterator[Finding]:
    """The verdict and the price of the promise."""
    if table.verdict is None or table.certificate is None or table.test is None:
        return
    coverage, confidence = table.certificate.coverage, table.certificate.confidence
    rows = calibration_rows(calibrate, arrays.support, table.domain, points_needed(coverage, confidence))
    fresh = verdict_of(profile, arrays, rows, test, table.certificate, table.test, table.factors)
    stored, again = ([one.model_dump() for one in prices] for prices in (table.price, price(arrays, rows, confidence)))
    yield from _compare(dict(enumerate(stored)), dict(enumerate(again)), "$.price")
    yield from _compare(table.verdict.model_dump(mode="json"), fresh.model_dump(mode="json"), "$.verdict")


def _provenance(table: TableV1, profile: Profile, path: str | Path) -> Iterator[Finding]:
    sha = file_sha256(path)
    if table.profile_sha256 is not None and sha != table.profile_sha256:
        yield Finding(
            "evidence",
            "$.profile_sha256",
            f"stored {table.profile_sha256[:12]}..., {path} has {sha[:12]}...: not the profile the table was fitted on",
        )
    for name, stored, found in differences(table.fingerprint, profile.meta.fingerprint)[Severity.REFUSE]:
        yield Finding("evidence", f"$.fingerprint.{name}", f"table says {stored!r}, profile says {found!r}")
    if table.aggregation != profile.meta.aggregation:
        yield Finding(
            "evidence", "$.aggregation", f"table says {table.aggregation}, profile says {profile.meta.aggregation}"
        )


def _certificate(table: TableV1, arrays: TableArrays, calibrate: Rows, law: str) -> Iterator[Finding]:
    stored = table.certificate
    if stored is None:
        if table.verdict is None or UNCERTIFIED not in table.verdict.concerns:
            yield Finding("evidence", "$.certificate", "nothing is certified; expected a certificate: fit it again")
        return
    try:
        needed = points_needed(stored.coverage, stored.confidence)
        rows = calibration_rows(calibrate, arrays.support, table.domain, needed)
        fresh = certificate(arrays, rows, stored.coverage, stored.confidence, law)
    except ChunkfitError as error:
        yield Finding("evidence", "$.certificate", str(error))
        return
    yield from _compare(stored.model_dump(mode="json"), fresh.model_dump(mode="json"), "$.certificate")


def _test(table: TableV1, arrays: TableArrays, test: Rows) -> Iterator[Finding]:
    fresh = tested(arrays, test)
    if table.test is None:
        yield Finding("evidence", "$.test", "no test session is recorded; fit the table again")
    else:
        yield from _compare(table.test.model_dump(mode="json"), fresh.model_dump(mode="json"), "$.test")
    promised = table.certificate.coverage if table.certificate else None
    if promised is not None and fresh.coverage.high is not None and fresh.coverage.high < promised:
        yield Finding(
            "evidence",
            "$.certificate.coverage",
            f"{promised:g} is certified, but the test session covers {fresh.coverage.covered} of "
            f"{fresh.coverage.rows} rows (upper 95% limit {fresh.coverage.high:.4f}): the promise does not hold",
        )


def _compare(stored: Any, fresh: Any, path: str) -> Iterator[Finding]:
    """Every leaf that differs between the stored and the recomputed figures."""
    if isinstance(stored, dict) and isinstance(fresh, dict):
        for key in sorted(stored.keys() | fresh.keys()):
            yield from _compare(stored.get(key), fresh.get(key), f"{path}.{key}")
    elif isinstance(stored, float | int) and isinstance(fresh, float | int):
        if not math.isclose(stored, fresh, rel_tol=RELATIVE_TOLERANCE, abs_tol=1e-12):
            yield Finding("evidence", path, f"stored {stored!r}, recomputed from the profile {fresh!r}")
    elif stored != fresh:
        yield Finding("evidence", path, f"stored {stored!r}, recomputed from the profile {fresh!r}")


@dataclass(frozen=True, slots=True)
class Repeat:
    """The fit of a table done again.

    gaps: by scene, ordered bound over the bound before, minus one, at every base node; shape of the base.
    worst_difference: largest relative difference between a node's bound here and in the table; 0: the same tick.
    """

    gaps: Mapping[Scene, NDArray[np.float64]]
    worst_difference: float


@one_blas_thread
def repeated(table: TableV1, profile: Profile) -> Repeat:
    """Raises FitError for a table with an unknown estimator, noise scale or margin, or with other knots."""
    name, options = table.fitter.name, table.fitter.options
    scale, steps = options.get("scale"), options.get("step_totals")
    multipliers = {part.scene: part.factor for part in table.margin if part.name == "noise"}
    if name not in ESTIMATORS or scale is None or steps is None or not set(table.scenes) <= multipliers.keys():
        raise FitError(
            f"fitter {name!r}, scale {scale!r}: cannot be fitted again; expected one of {', '.join(ESTIMATORS)}, its "
            "scale and steps, and a noise margin for each scene: fit the table with this version"
        )
    stored = TableArrays.of(table)
    drift = session_drift(shared_rows(profile), held_out(profile, "calibrate", stored.ladders))
    rows = rows_of(profile, "fit")
    rows = centred(rows.where(rows.mask_of(table.scenes)), drift)
    estimator, ladders = ESTIMATORS[name], ladders_of(rows, table.domain, steps)
    noise = refitted(scale, lambda: out_of_fold(estimator, rows, ladders))
    built = build_chosen(rows, table.domain, steps, estimator, noise, stored.support)
    if built.axes != stored.axes or built.ladders != stored.ladders:
        raise FitError("the table has other knots than this version makes: fit the table again with this version")
    factors = {scene: factor for scene, factor in multipliers.items() if scene is not None and factor is not None}
    unclosed = built.unclosed(factors, table.factors.session_drift or 1.0)
    closed = built.closed(unclosed)
    gaps = {
        scene: (closed_over_unclosed(closed, unclosed, scene, node_points(closed.axes, scene)) - 1).reshape(
            closed.axes.shape(scene)
        )
        for scene in closed.ladders
    }
    return Repeat(gaps, max(_difference(stored, closed, scene) for scene in gaps))


def _difference(stored: TableArrays, fresh: TableArrays, scene: Scene) -> float:
    points = node_points(stored.axes, scene)
    here, there = (
        read_surface(arrays.axes, scene, arrays.ladders[scene], arrays.bound[scene], points)
        for arrays in (stored, fresh)
    )
    return float(np.max(np.abs(there - here) / here))
