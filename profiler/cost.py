"""How long measuring takes: said before a sweep, and asked before each point of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from .plan import PlanPoint, Session, SweepPlan
from .rounds import CHOICE_S, rounds_to_come
from .timing import with_sentinels

Floats = NDArray[np.float64]

# Points before the first fit; more when there are coefficients to begin with; and used in a fit at most.
ENOUGH = 6
ENOUGH_TO_REPLACE = 20
KEPT = 400

# What calibrate and test get is their estimate and this much more: estimates are not exact, and points
# that are missing there cost certification, points missing in the fit session only accuracy.
HEADROOM = 1.15
FIT_SHARE = 0.35
# Joining the rows and writing the Parquet file.
FINISH_S = 1.0


@dataclass(slots=True)
class CostModel:
    """Seconds per point, from the points measured so far: iterations x (1, n + c, n k, c (u + c / 2)) and
    a constant, coefficients >= 0 by least squares on relative error.

    Without coefficients it answers with the slowest point seen, 0 before the first. Coefficients of an
    earlier session may be given; they are replaced once there is enough of this one.
    """

    coefficients: tuple[float, ...] = ()
    _work: list[Floats] = field(default_factory=list)
    _seconds: list[float] = field(default_factory=list)
    _next_fit: int = 0

    def observe(self, point: PlanPoint, iterations: int, seconds: float) -> None:
        """One measured point, preparation and journal included."""
        self._work.append(_work_of(point, iterations))
        self._seconds.append(max(seconds, 1e-6))
        self._next_fit = self._next_fit or (ENOUGH_TO_REPLACE if self.coefficients else ENOUGH)
        if len(self._seconds) >= self._next_fit:
            self.fit()

    def fit(self) -> None:
        """Coefficients from what was observed; the next time by itself after half as many points again."""
        work, seconds = np.stack(self._work[-KEPT:]), np.asarray(self._seconds[-KEPT:])
        scale = work.max(axis=0)
        scale[scale == 0] = 1.0
        solution, _ = nnls(work / scale / seconds[:, None], np.ones(len(seconds)))
        self.coefficients = tuple((solution / scale).tolist())
        self._next_fit = len(self._seconds) * 3 // 2 + 1

    def seconds(self, work: Floats) -> Floats:
        """Predicted for rows of `work_of`."""
        if not self.coefficients:
            return np.full(len(work), max(self._seconds, default=0.0))
        return np.asarray(work @ np.asarray(self.coefficients))

    def session_seconds(self, plan: SweepPlan, points: Sequence[PlanPoint]) -> float:
        """Predicted for `points` of one session with its sentinels."""
        return float(self.seconds(work_of(with_sentinels(plan, points), plan.warmups)).sum()) if points else 0.0

    def rounds_seconds(self, usual: Floats, measured: int, left: int) -> float:
        """Predicted for choosing and measuring `left` points that are not known yet, after `measured` ones, each of
        them as dear as `usual_work` says."""
        return left * float(self.seconds(usual).sum()) + CHOICE_S * rounds_to_come(measured, left) if left else 0.0


def work_of(points: Sequence[PlanPoint], warmups: int) -> Floats:
    """(m, 5): what the cost of measuring each point is linear in."""
    return np.asarray([_work_of(point, warmups + point.iterations) for point in points]).reshape(-1, 5)


def usual_work(plan: SweepPlan) -> Floats:
    """(1, 5): work of a fit point, the mean of the plan's, with its share of the sentinels."""
    start = [point for point in plan.fit if point.role == "point"]
    whole: Floats = work_of(with_sentinels(plan, start), plan.warmups).sum(axis=0, keepdims=True)
    return np.asarray(whole / max(1, len(start)))


def _work_of(point: PlanPoint, iterations: int) -> Floats:
    n, k, c, u = point.point
    return np.asarray([1.0, *(iterations * x for x in (1.0, n + c, n * k, c * (u + c / 2)))])


def session_deadline(
    now: float,
    end: float,
    sessions: Sequence[Session],
    seconds: Mapping[Session, float],
    startup_s: float,
    least: Mapping[Session, float] | None = None,
) -> float:
    """When the first of `sessions` has to stop, on the clock of `now` and `end` (the whole sweep's).

    seconds: estimate of each session; startup_s: of each later process. least: of the points without which nothing can
    be certified. The later sessions get what their points need first, the fit session the rest, but at least 35%;
    calibrate and test share by need when both cannot be had. What the certificate needs comes before that 35%, where
    the time holds it at all. The last session may use what is left.
    """
    left = max(0.0, end - FINISH_S - now)
    if not sessions[1:]:
        return now + left
    needed = {session: HEADROOM * (least or {}).get(session, 0.0) for session in sessions}
    reserved = sum(needed[session] + startup_s for session in sessions[1:])
    later = sum(HEADROOM * seconds[session] + startup_s for session in sessions[1:])
    if sessions[0] == "fit":
        share = max(FIT_SHARE * left, left - later)
    else:
        own = HEADROOM * seconds[sessions[0]]
        share = left - later if own + later <= left else left * own / (own + later)
    if needed[sessions[0]] + reserved <= left:
        share = min(max(share, needed[sessions[0]]), left - reserved)
    return now + share
