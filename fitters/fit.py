"""Profile -> certified cost table.

Fit session: models, nodes, scale. Calibrate session: margin. Test session: read once, at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..files.errors import CertificationError
from ..profiler.columns import PAIRED
from ..profiler.microbench.results import MicrobenchV1
from ..profiler.profile import Profile
from ..tables.batch import AXES
from ..tables.cost_table import CostTable
from ..tables.fingerprint import require_same
from ..tables.grid import scene_of
from ..tables.schema_v1 import FactorsV1, FitterV1, MarginPartV1, RangeV1
from ..tables.verdict import VerdictV1
from .build import Built, build
from .certify import certificate, law_of, majorant_gap, tested
from .estimators.registry import AUTO
from .margin import (
    Drift,
    NoiseMargin,
    PairFactor,
    centred,
    noise_margins,
    pair_factor,
    points_needed,
    require_points,
    session_drift,
)
from .numerics import one_blas_thread
from .rows import Rows, held_out, rows_of, shared_rows
from .select import Selection
from .stalls import price
from .steps import FoundStep
from .support import calibration_rows, measured_support
from .verdict import UNCERTIFIED, verdict_of

MIN_FIT_POINTS = 5  # per scene: with fewer the table has no such scene


@one_blas_thread
def fit(
    profile: Profile,
    *,
    fitter: str = AUTO,
    coverage: float = 0.99,
    confidence: float = 0.95,
    profile_sha256: str | None = None,
    operators: MicrobenchV1 | None = None,
) -> CostTable:
    """Fit a certified cost table to a profile.

    Args:
        profile: a profile of single iterations with the sessions fit, calibrate and test.
        fitter: "auto", for which all estimators compete (select.py), or the name of one.
        coverage: share of the plan's batches that the bound covers, between 0 and 1.
        confidence: probability, over the calibration session, that it does; between 0 and 1.
        profile_sha256: of the profile's file, to be stored in the table.
        operators: microbenchmarks of the same device and model, for the fitter roofline.

    Returns:
        A table whose bound covers `coverage` of the plan's batches with `confidence`.

    Raises:
        CertificationError: the data cannot carry that promise: means instead of iterations, too few points, a session
            missing.
        UsageError: the fitter is unknown.
        FitError: the fitter cannot fit these rows.
        FingerprintMismatchError: the operators are of another device or model.
    """
    if profile.meta.aggregation != "iteration":
        raise CertificationError(
            f"profile aggregation is {profile.meta.aggregation!r}; a P99 of iterations can only be certified from "
            "single iterations (aggregation 'iteration'): profile again with every repeat kept, or ingest a log of "
            "them; `chunkfit fit --uncertified` makes a table of expected times, which promises nothing"
        )
    if operators is not None:
        require_same(profile.meta.fingerprint, operators.fingerprint, "profile and microbenchmarks")
    fit_rows = _usable(rows_of(profile, "fit"))
    calibrate, test = (held_out(profile, session, fit_rows.scenes()) for session in ("calibrate", "test"))
    drift = session_drift(shared_rows(profile), calibrate)
    support = measured_support(profile, fit_rows, calibrate)
    calibrate = calibration_rows(calibrate, support, profile.meta.domain, points_needed(coverage, confidence))
    require_points(len(calibrate), coverage, confidence)
    fit_rows = centred(fit_rows, drift)

    domain, known_steps = profile.meta.domain, profile.meta.step_totals
    built, selection, new_steps = build(fit_rows, domain, known_steps, fitter, operators, support)
    margins = _calibrated(built, calibrate, coverage, confidence)
    multipliers = {scene: margin.multiplier for margin in margins for scene in margin.scenes}
    unclosed = built.unclosed(multipliers, drift.factor or 1.0)
    arrays = built.closed(unclosed)
    unequal, chunks = (pair_factor(profile, role) for role in PAIRED)
    answered = test.where(arrays.answers(test.points))
    if not len(answered):
        raise CertificationError(
            f"none of the {len(test)} test rows has an answer: no batch with as much work was measured before; "
            "expected a log whose later batches resemble the earlier ones: ingest it with --split points, or log more"
        )

    certified = certificate(arrays, calibrate, coverage, confidence, law_of(profile.meta))
    figures = tested(arrays, answered)
    factors = FactorsV1(unequal_contexts=unequal.factor, several_chunks=chunks.factor, session_drift=drift.factor)
    return CostTable.of(
        arrays,
        fingerprint=profile.meta.fingerprint,
        aggregation=profile.meta.aggregation,
        profile_sha256=profile_sha256,
        observed=_observed(fit_rows),
        fitter=_fitter(built, selection, new_steps, fit_rows),
        margin=_margin_parts(margins, drift, selection.noise.name, unequal, chunks),
        factors=factors,
        verdict=verdict_of(profile, arrays, calibrate, test, certified, figures, factors),
        certificate=certified,
        price=price(arrays, calibrate, confidence),
        test=figures,
        gap=majorant_gap(arrays, unclosed, built.surfaces, answered),
    )


@one_blas_thread
def fit_expected(
    profile: Profile,
    *,
    fitter: str = AUTO,
    profile_sha256: str | None = None,
    operators: MicrobenchV1 | None = None,
) -> CostTable:
    """Fit a table of expected times, which promises nothing: from means, grids, or too few points for a certificate.

    Args:
        profile: any profile with a fit session; its test session, where there is one, gives the errors.
        fitter, profile_sha256, operators: as for `fit`.

    Returns:
        A table without a certificate, whose bounds are its expected times.

    Raises:
        CertificationError: no scene has enough points.
        UsageError: the fitter is unknown.
        FitError: the fitter cannot fit these rows.
        FingerprintMismatchError: the operators are of another device or model.
    """
    if operators is not None:
        require_same(profile.meta.fingerprint, operators.fingerprint, "profile and microbenchmarks")
    fit_rows = _usable(rows_of(profile, "fit"))
    domain, known_steps = profile.meta.domain, profile.meta.step_totals
    support = measured_support(profile, fit_rows, fit_rows)
    built, selection, new_steps = build(fit_rows, domain, known_steps, fitter, operators, support)
    arrays = built.closed(built.unclosed(dict.fromkeys(built.surfaces, 0.0), 1.0))
    test = profile.select("test")
    held = held_out(profile, "test", fit_rows.scenes()) if len(test) else fit_rows.where(np.zeros(len(fit_rows), bool))
    held = held.where(arrays.answers(held.points))
    return CostTable.of(
        arrays,
        fingerprint=profile.meta.fingerprint,
        aggregation=profile.meta.aggregation,
        profile_sha256=profile_sha256,
        observed=_observed(fit_rows),
        fitter=_fitter(built, selection, new_steps, fit_rows),
        margin=[],
        factors=FactorsV1(unequal_contexts=None, several_chunks=None, session_drift=None),
        verdict=VerdictV1.of([UNCERTIFIED]),
        certificate=None,
        price=[],
        test=tested(arrays, held) if len(held) else None,
        gap=None,
    )


def _calibrated(built: Built, calibrate: Rows, coverage: float, confidence: float) -> list[NoiseMargin]:
    expected_ms, scale_ms = built.expected_and_scale(calibrate.points)
    scores = (calibrate.latency_ms - expected_ms) / scale_ms
    return noise_margins(scores, scene_of(calibrate.points), coverage, confidence)


def _usable(rows: Rows) -> Rows:
    """Fit rows of scenes that have enough points. Raises CertificationError when none has."""
    counted = {scene: rows.scene(scene).point_count for scene in rows.scenes()}
    kept = [scene for scene, points in counted.items() if points >= MIN_FIT_POINTS]
    if not kept:
        listed = ", ".join(f"{scene.value} {points}" for scene, points in counted.items())
        raise CertificationError(
            f"session fit: {listed} points; expected at least {MIN_FIT_POINTS} in a scene: "
            "profile more points (a larger time budget)"
        )
    return rows.where(rows.mask_of(kept))


def _observed(rows: Rows) -> dict[str, RangeV1]:
    """Of each axis, over the rows whose batches have it: a context without decodes is none, a prefix needs a chunk."""
    n, _, c, _ = rows.points.T
    there = {"decodes": n > 0, "context_tokens": n > 0, "chunk_tokens": c > 0, "prefix_tokens": c > 0}
    ranges = {}
    for column, axis in enumerate(AXES):
        values = np.sort(rows.points[there[axis], column])
        if len(values):
            ranges[axis] = RangeV1(low=int(values[0]), median=int(values[len(values) // 2]), high=int(values[-1]))
    return ranges


def _fitter(built: Built, selection: Selection, new_steps: list[FoundStep], rows: Rows) -> FitterV1:
    options: dict[str, Any] = {
        "step_totals": list(built.steps),
        "steps_found": [step.document() for step in new_steps],
        "scale": selection.noise.name,
        "scale_pinball_99_percent": dict(selection.winner.bound),
        "selection": {
            "why": selection.why,
            "candidates": [candidate.document() for candidate in selection.candidates],
        },
        "fit_rows": len(rows),
        "fit_points": rows.point_count,
    }
    coefficients = {scene.value: dict(model.coefficients) for scene, model in built.models.items()}
    return FitterV1(name=selection.winner.name, options=options, coefficients=coefficients)


def _margin_parts(
    margins: list[NoiseMargin], drift: Drift, scale: str, unequal: PairFactor, chunks: PairFactor
) -> list[MarginPartV1]:
    noise = [
        MarginPartV1(
            name="noise",
            scene=scene,
            factor=margin.multiplier,
            detail=f"order statistic {margin.points - margin.allowed} of {margin.points} scores (T - E) / scale, "
            f"scale {scale}, pooled over {', '.join(s.value for s in margin.scenes)}",
        )
        for margin in margins
        for scene in margin.scenes
    ]
    return [
        *noise,
        MarginPartV1(name="session_drift", scene=None, factor=drift.factor, detail=drift.detail),
        MarginPartV1(name="unequal_contexts", scene=None, factor=unequal.factor, detail=unequal.detail),
        MarginPartV1(name="several_chunks", scene=None, factor=chunks.factor, detail=chunks.detail),
    ]
