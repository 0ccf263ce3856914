"""Does the data say what the table says? Every certificate and error recomputed from the profile."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..files.errors import ChunkfitError
from ..profiler.profile import Profile, file_sha256
from ..tables.arrays import TableArrays, from_document
from ..tables.document import Finding
from ..tables.fingerprint import Severity, differences
from ..tables.schema_v1 import TableV1
from ..tables.validate import validate_file
from .certify import certificate, law_of, tested
from .factors import pair_factor
from .rows import Rows, held_out

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
    arrays = from_document(table, "table")
    stored = table.factors.model_dump(include={"unequal_contexts", "several_chunks"})
    fresh = {
        "unequal_contexts": pair_factor(profile, "unequal").factor,
        "several_chunks": pair_factor(profile, "chunks").factor,
    }
    findings += _compare(stored, fresh, "$.factors")
    try:
        calibrate, test = (held_out(profile, session, arrays.ladders) for session in ("calibrate", "test"))
        findings += _certificate(table, arrays, calibrate, law_of(profile.meta))
        findings += _test(table, arrays, test)
    except ChunkfitError as error:
        findings.append(Finding("evidence", str(profile_path), str(error)))
    return findings


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
        yield Finding("evidence", "$.certificate", "nothing is certified; expected a certificate: fit the table again")
        return
    try:
        fresh = certificate(arrays, calibrate, stored.coverage, stored.confidence, law)
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
