"""What the synthetic device gives, in memory: a whole profile as a sweep of it, iterations as an engine on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..tables.grid import Points
from ..tables.predictor import Predictor
from .assemble import Measured, build_profile
from .choose import next_choice
from .condition import Condition
from .devices.synthetic import FINGERPRINT
from .devices.truth import NAME, layout_factor, sample_ms
from .domains import default_domain, default_step_totals
from .journal import Choice
from .plan import SESSIONS, PlanOptions, PlanPoint, Session, SweepPlan, draw_plan
from .profile import Profile
from .sampling import Point, draw
from .timing import with_sentinels
from .traffic import Traffic

LIVE_POINTS = 1500


def synthetic_profile(
    seed: int,
    *,
    fit_points: int = 1000,
    fit_repeats: int = 3,
    calibrate_points: int = 1000,
    test_points: int = 1000,
    tolerance: float | None = None,
    predictor: Predictor | None = None,
    traffic: Traffic | None = None,
) -> Profile:
    """All three sessions of `reference-v1` over its default domain; the same for the same arguments.

    tolerance and traffic: as for `draw_plan`; `predictor` chooses the points of rounds.
    """
    plan = draw_plan(
        default_domain("synthetic"),
        default_step_totals("synthetic"),
        seed,
        PlanOptions(
            fit_points=fit_points,
            calibrate_points=calibrate_points,
            test_points=test_points,
            fit_repeats=fit_repeats,
            warmups=0,
            warmup_ms=0.0,
            tolerance=tolerance,
            traffic=traffic,
        ),
    )
    measured = [entry for session in SESSIONS for entry in _measure(plan, session, plan.points(session))]
    choices: list[Choice] = []
    while plan.rounds and predictor and not (choices and choices[-1].stopped):
        fitted = [entry for entry in measured if entry.session == "fit" and entry.point.role == "point"]
        points = np.asarray([entry.point.point for entry in fitted], dtype=np.int64)
        medians = np.asarray([np.median([latency for latency, _ in entry.repeats]) for entry in fitted])
        choices.append(next_choice(plan, choices, points, medians, predictor))
        measured += [entry for entry in _measure(plan, "fit", choices[-1].points) if entry.point.role == "point"]
    rounds = [choice.meta() for choice in choices]
    return build_profile(plan, FINGERPRINT, measured, (), {}, f"{NAME}, seed {seed}", rounds)


def synthetic_iterations(seed: int, count: int) -> tuple[Points, NDArray[np.float64]]:
    """Points (count, 4) and latencies (count,) in ms: batches of the plan's law in no order, in one session.

    Sessions and noise of an engine are never those of a profile.
    """
    domain, steps = default_domain("synthetic"), default_step_totals("synthetic")
    batches = draw(domain, LIVE_POINTS, steps, np.random.SeedSequence((LIVE_POINTS, seed))).points
    points = batches[np.random.default_rng(seed).integers(0, len(batches), count)]
    return points, sample_ms(points, np.arange(count), seed, "live")


def _measure(plan: SweepPlan, session: Session, chosen: Sequence[PlanPoint]) -> list[Measured]:
    schedule = with_sentinels(plan, chosen)
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
