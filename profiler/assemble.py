"""Measured points to a profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..tables.fingerprint import Fingerprint
from .columns import Columns
from .condition import Condition, judge
from .meta import ProfileMeta, RoundMeta, SessionMeta, SkippedPoint
from .plan import SESSIONS, PlanPoint, Session, SweepPlan
from .profile import Profile


@dataclass(frozen=True, slots=True)
class Measured:
    """One point of one session. repeats: (latency_ms, event_ms or None) of each timed iteration."""

    session: Session
    point: PlanPoint
    order: int
    started_s: float
    repeats: Sequence[tuple[float, float | None]]
    condition: Condition


@dataclass(frozen=True, slots=True)
class SessionClock:
    """Wall seconds a session measured, and when it started (ISO 8601, UTC)."""

    seconds: float
    started_at: str | None


def build_profile(
    plan: SweepPlan,
    fingerprint: Fingerprint,
    measured: Sequence[Measured],
    skipped: Sequence[SkippedPoint],
    clocks: Mapping[Session, SessionClock],
    source: str,
    rounds: Sequence[RoundMeta] = (),
) -> Profile:
    """One row per timed iteration, sessions in their usual order. Raises ProfileFormatError."""
    columns = _columns(sorted(measured, key=lambda entry: (SESSIONS.index(entry.session), entry.order)))
    sessions: dict[str, SessionMeta] = {}
    for session in SESSIONS:
        rows = columns["session"] == session
        sentinel = rows & (columns["role"] == "sentinel")
        clock = clocks.get(session, SessionClock(0.0, None))
        sessions[session] = SessionMeta(
            planned=plan.planned(session),
            points=sum(entry.session == session and entry.point.role != "sentinel" for entry in measured),
            rows=int(rows.sum()),
            flagged=sum(entry.session == session and entry.condition.flagged for entry in measured),
            skipped=sum(point.session == session for point in skipped),
            seconds=clock.seconds,
            started_at=clock.started_at,
            sentinel=judge(columns["latency_ms"][sentinel], columns["order"][sentinel]),
        )
    meta = ProfileMeta(
        fingerprint=fingerprint,
        aggregation="iteration",
        domain=plan.domain,
        step_totals=plan.step_totals,
        seed=plan.seed,
        plan_sha256=plan.sha256(),
        sessions=sessions,
        skipped=tuple(skipped),
        clipped_fraction=plan.clipped_fraction,
        tolerance=plan.rounds.tolerance if plan.rounds else None,
        rounds=tuple(rounds),
        traffic=plan.traffic,
    )
    return Profile(meta, columns, source)


def _columns(measured: Sequence[Measured]) -> Columns:
    counts = [len(entry.repeats) for entry in measured]
    points = [entry.point for entry in measured]
    conditions = [entry.condition for entry in measured]
    states = [condition.state for condition in conditions]
    repeats = [repeat for entry in measured for repeat in entry.repeats]

    def per_row(values: Sequence[object], kind: type) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
        return np.repeat(np.asarray(values, dtype=kind), counts)

    def known(values: Sequence[float | None]) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
        return per_row([np.nan if value is None else value for value in values], np.float64)

    return {
        "session": per_row([entry.session for entry in measured], np.str_),
        "role": per_row([point.role for point in points], np.str_),
        "scene": per_row([point.scene.value for point in points], np.str_),
        "point_id": per_row([point.point_id for point in points], np.int64),
        "repeat": np.asarray([index for count in counts for index in range(count)], dtype=np.int64),
        "order": per_row([entry.order for entry in measured], np.int64),
        "decodes": per_row([point.n for point in points], np.int64),
        "context_tokens": per_row([point.k for point in points], np.int64),
        "chunk_tokens": per_row([point.c for point in points], np.int64),
        "prefix_tokens": per_row([point.u for point in points], np.int64),
        "layout": per_row([point.layout for point in points], np.str_),
        "latency_ms": np.asarray([latency for latency, _ in repeats], dtype=np.float64),
        "event_ms": np.asarray([np.nan if event is None else event for _, event in repeats], dtype=np.float64),
        "flagged": per_row([condition.flagged for condition in conditions], np.bool_),
        "tries": per_row([condition.tries for condition in conditions], np.int64),
        "sm_clock_mhz": known([state.sm_clock_mhz for state in states]),
        "memory_clock_mhz": known([state.memory_clock_mhz for state in states]),
        "temperature_c": known([state.temperature_c for state in states]),
        "power_w": known([state.power_w for state in states]),
        "throttle": per_row([state.throttle_text() for state in states], np.str_),
        "started_s": per_row([entry.started_s for entry in measured], np.float64),
    }
