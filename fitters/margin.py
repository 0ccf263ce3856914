"""From errors to a bound with a promise: order statistics with confidence, drift between sessions."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from ..files.errors import CertificationError
from ..tables.batch import Scene
from .rows import Rows, point_medians

OWN_MARGIN_POINTS = 1000  # below, a scene's tail costs more than it explains and scenes are pooled
MIN_ANCHORS = 30


def order_statistic(points: int, coverage: float, confidence: float) -> int | None:
    """Smallest k with P(Beta(k, m + 1 - k) >= coverage) >= confidence, or None when no k of m is enough.

    The k-th smallest of m exchangeable scores then covers a new one with probability at least `coverage`,
    with `confidence` over the drawing of the m. (k = ceil((m + 1) coverage), plain split conformal, holds
    on average only: it falls short in almost half of all sessions.)
    """
    # The probability rises with k: bisect for the first k that reaches the confidence.
    low, high = 1, points
    if points < 1 or beta.sf(coverage, points, 1) < confidence:
        return None
    while low < high:
        k = (low + high) // 2
        if beta.sf(coverage, k, points + 1 - k) >= confidence:
            high = k
        else:
            low = k + 1
    return low


def points_needed(coverage: float, confidence: float) -> int:
    """Smallest number of calibration points that certifies `coverage` (299 for 0.99 at 95%)."""
    return int(np.ceil(np.log(1 - confidence) / np.log(coverage)))


def best_coverage(points: int, confidence: float) -> float:
    """Largest coverage that `points` calibration points can certify, rounded down to 0.001."""
    return float(np.floor((1 - confidence) ** (1 / max(points, 1)) * 1000) / 1000)


@dataclass(frozen=True, slots=True)
class NoiseMargin:
    """U = E + multiplier * scale for the scenes of one group, from `points` scores of which `allowed` exceed."""

    scenes: tuple[Scene, ...]
    multiplier: float
    points: int
    allowed: int


def require_points(points: int, coverage: float, confidence: float) -> None:
    """Raises CertificationError, before anything is fitted, when `points` calibration points certify too little."""
    if order_statistic(points, coverage, confidence) is None:
        raise _too_few(points, coverage, confidence)


def _too_few(points: int, coverage: float, confidence: float) -> CertificationError:
    best = best_coverage(points, confidence)
    return CertificationError(
        f"refused: m = {points} calibration points, needs {points_needed(coverage, confidence)} to certify "
        f"{coverage:g} at {confidence:g} confidence; these points can certify {best:g} (--coverage {best:g}), "
        "or profile more calibration points"
    )


def noise_margins(
    scores: NDArray[np.float64], scenes: NDArray[np.str_], coverage: float, confidence: float
) -> list[NoiseMargin]:
    """Margins from calibration scores (y - E) / scale, one per independent point.

    Scenes with OWN_MARGIN_POINTS points get their own, the others share one. With g groups each is held at
    confidence 1 - (1 - confidence) / g, so that all hold together at `confidence`.
    Raises CertificationError when there are too few points, with the number needed.
    """
    present = [scene for scene in Scene if (scenes == scene.value).any()]
    own = [scene for scene in present if int((scenes == scene.value).sum()) >= OWN_MARGIN_POINTS]
    pooled = [scene for scene in present if scene not in own]
    groups = [(scene,) for scene in own] + ([tuple(pooled)] if pooled else [])
    each = 1 - (1 - confidence) / len(groups)
    sizes = [int(np.isin(scenes, [s.value for s in group]).sum()) for group in groups]
    if min(sizes) < points_needed(coverage, each):
        groups, each = [tuple(present)], confidence
    margins = []
    for group in groups:
        mine = np.sort(scores[np.isin(scenes, [s.value for s in group])])
        k = order_statistic(len(mine), coverage, each)
        if k is None:
            raise _too_few(len(mine), coverage, confidence)
        margins.append(NoiseMargin(group, float(mine[k - 1]), len(mine), len(mine) - k))
    return margins


@dataclass(frozen=True, slots=True)
class Drift:
    """Shift between the fit and the calibration session over shared points.

    ratio: median T_calibrate / T_fit. factor: what the bound is raised by. Both None: not measured.
    """

    ratio: float | None
    factor: float | None
    detail: str


def session_drift(fit_anchors: Rows, calibrate: Rows) -> Drift:
    """exp(|median over shared points of log(T_cal / T_fit)|), from at least MIN_ANCHORS points.

    The calibration session is one draw of the session effect; a new session will differ from it about as
    much as it differs from the fit session, and nothing inside one session shows that.
    """
    before, after = point_medians(fit_anchors), point_medians(calibrate)
    shared, i, j = np.intersect1d(before.point_id, after.point_id, return_indices=True)
    if len(shared) < MIN_ANCHORS:
        return Drift(None, None, f"{len(shared)} points shared by fit and calibrate; needs {MIN_ANCHORS}")
    shift = float(np.median(np.log(after.latency_ms[j] / before.latency_ms[i])))
    return Drift(
        float(np.exp(shift)),
        float(np.exp(abs(shift))),
        f"median over {len(shared)} shared points of T_calibrate / T_fit is {np.exp(shift):.4f}",
    )


def centred(fit_rows: Rows, drift: Drift) -> Rows:
    """Fit rows moved to the middle of the two sessions, so that the expected time is that of neither.

    A session is off by one draw of the session effect; the mean of two is off by 0.7 of it. With a
    proportional scale the bound does not depend on this, since the calibration session alone sets its level.
    """
    if drift.ratio is None:
        return fit_rows
    return replace(fit_rows, latency_ms=fit_rows.latency_ms * np.sqrt(drift.ratio))
