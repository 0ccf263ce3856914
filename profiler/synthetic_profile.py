"""What the synthetic device gives, in memory: a whole profile as a sweep of it, iterations as an engine on it."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from ..tables.grid import Points
from .assemble import Measured, build_profile
from .condition import Condition
from .devices.synthetic import FINGERPRINT
from .devices.truth import NAME, layout_factor, sample_ms
from .domains import default_domain, default_step_totals
from .law import Point, draw
from .plan import SESSIONS, Session, SweepPlan, draw_plan, with_sentinels
from .profile import Profile

LIVE_POINTS = 1500


def synthetic_profile(
    seed: int,
    *,
    fit_points: int = 1000,
    fit_repeats: int = 3,
    calibrate_points: int = 1000,
    test_points: int = 1000,
) -> Profile:
    """All three sessions of `reference-v1` over its default domain; the same for the same arguments."""
    plan = draw_plan(
        default_domain("synthetic"),
        default_step_totals("synthetic"),
        seed,
        fit_points=fit_points,
        calibrate_points=calibrate_points,
        test_points=test_points,
        fit_repeats=fit_repeats,
        warmups=0,
        warmup_ms=0.0,
    )
    measured = [entry for session in SESSIONS for entry in _measure(plan, session)]
    return build_profile(plan, FINGERPRINT, measured, (), {}, f"{NAME}, seed {seed}")


def synthetic_iterations(seed: int, count: int) -> tuple[Points, NDArray[np.float64]]:
    """Points (count, 4) and latencies (count,) in ms: batches of the plan's law in no order, in one session.

    Sessions and noise of an engine are never those of a profile.
    """
    domain, steps = default_domain("synthetic"), default_step_totals("synthetic")
    batches = draw(domain, LIVE_POINTS, steps, np.random.SeedSequence((LIVE_POINTS, seed))).points
    points = batches[np.random.default_rng(seed).integers(0, len(batches), count)]
    return points, sample_ms(points, np.arange(count), seed, "live")


def _measure(plan: SweepPlan, session: Session) -> list[Measured]:
    schedule = with_sentinels(plan, plan.points(session))
    visited: Counter[Point] = Counter()
    visits: list[int] = []
    for point in schedule:
        first = visited[point.point]
        visited[point.point] += point.repeats
        visits += range(first, first + point.repeats)
    repeats = [point.repeats for point in schedule]
    points = np.repeat(np.asarray([point.point for point in schedule], dtype=np.int64), repeats, axis=0)
    factors = np.repeat([layout_factor(point.batch()) for point in schedule], repeats)
    latencies = (sample_ms(points, np.asarray(visits), plan.seed, session) * factors).tolist()
    ends = np.cumsum(repeats).tolist()
    return [
        Measured(session, point, order, 0.0, [(ms, None) for ms in latencies[end - point.repeats : end]], Condition())
        for order, (point, end) in enumerate(zip(schedule, ends, strict=True))
    ]
