"""From the expected time to a bound with a promise.

The noise margin: order statistics of calibration scores with confidence. Session drift: the shift between the fit and
the calibration session. Pair factors: corrections for batches that the table approximates, unequal contexts (read at
their mean) and several chunks (read as one).
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from ..files.errors import CertificationError
from ..profiler.columns import Role
from ..profiler.profile import Profile
from ..tables.batch import Scene
from ..tables.lookup import WEIGHT_ONE
from .rows import Rows, point_medians

OWN_MARGIN_POINTS = 1000  # with fewer, a scene shares one margin with others: its own would be wide by chance
MIN_ANCHORS = 30  # points shared by two sessions; fewer measure no drift
# Pair factors cover this share of such batches with this confidence, by the order statistic of the bound itself. More
# would need 59 pairs and more of the session. The bound of a batch that is not covered is short by the difference of
# the largest ratios.
PAIR_COVERAGE = 0.90
PAIR_CONFIDENCE = 0.95


def order_statistic(points: int, coverage: float, confidence: float) -> int | None:
    """Smallest k with P(Beta(k, m + 1 - k) >= coverage) >= confidence, or None when no k of m is enough.

    The k-th smallest of m exchangeable scores then covers a new one with probability at least `coverage`,
    with `confidence` over the drawing of the m. (k = ceil((m + 1) coverage), plain split conformal, holds
    on average only: it falls short in almost half of all sessions.)
    """
    # P(Beta(k, m + 1 - k) >= coverage) = P(Binomial(m, coverage) <= k - 1)
    k = int(binom.ppf(confidence, points, coverage)) + 1 if points > 0 else 1
    return k if k <= points else None


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


@dataclass(frozen=True, slots=True)
class PairFactor:
    """factor: at least 1, a multiple of 1/4096; None where there are too few pairs."""

    factor: float | None
    detail: str


def pair_factor(profile: Profile, role: Role) -> PairFactor:
    """Factor of the pairs of one role ("unequal" or "chunks") in the fit session.

    A pair is a point with a layout and the point of the same n, k, c, u without, timed in turn. Its ratio is the median
    over the repeats, each against its neighbour in time: stalls and slow phases of the machine hit both and are in the
    noise margin already. (The ratio of the two fastest iterations would contain a change of speed between them.)
    """
    part = profile.select("fit", role)
    layouts, latency = part.columns["layout"], part.columns["latency_ms"]
    times: dict[tuple[int, ...], dict[str, list[float]]] = {}
    for point, layout, ms in zip(part.points().tolist(), layouts.tolist(), latency.tolist(), strict=True):
        times.setdefault(tuple(point), {}).setdefault(layout, []).append(ms)
    ratios = [
        statistics.median(mine / other for mine, other in zip(measured, state[""], strict=False))
        for state in times.values()
        if "" in state
        for layout, measured in state.items()
        if layout
    ]
    k = order_statistic(len(ratios), PAIR_COVERAGE, PAIR_CONFIDENCE)
    if k is None:
        needed = points_needed(PAIR_COVERAGE, PAIR_CONFIDENCE)
        return PairFactor(None, f"not measured: {len(ratios)} pairs of equal totals; needs {needed}")
    at = float(np.sort(ratios)[k - 1])
    factor = math.ceil(max(1.0, at) * WEIGHT_ONE) / WEIGHT_ONE
    return PairFactor(
        factor,
        f"order statistic {k} of {len(ratios)} ratios {at:.4f}, at least 1: pairs of equal totals measured side by "
        f"side, median {np.median(ratios):.4f}, largest {max(ratios):.4f}; only such batches are raised by it",
    )
