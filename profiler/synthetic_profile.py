"""A whole profile of the synthetic device in memory, as a sweep of it would give."""

from __future__ import annotations

from collections import Counter

import numpy as np

from .assemble import Measured, build_profile
from .condition import Condition
from .devices.synthetic import FINGERPRINT
from .devices.truth import NAME, layout_factor, sample_ms
from .domains import default_domain, default_step_totals
from .law import Point
from .plan import SESSIONS, Session, SweepPlan, draw_plan, with_sentinels
from .profile import Profile


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
