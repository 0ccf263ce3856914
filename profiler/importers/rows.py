"""Samples to the columns of a profile, and what a profile says about each session and the whole domain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...tables.domain import Domain
from ...tables.grid import Points, scene_of
from ..columns import Columns
from ..meta import SessionMeta
from ..plan import SESSIONS
from ..sentinel import judge
from .samples import Sample, Split
from .sessions import Shares, by_points, by_replicates, by_time, place_among_equals


def columns_of(samples: Sequence[Sample], split: Split, shares: Shares, seed: int) -> Columns:
    """One row per sample: sessions in their usual order, within each the order of the log.

    Nothing is known of the device's state. Layouts are not kept: a row stands by its totals.
    """
    points = np.asarray([(s.n, s.k, s.c, s.u) for s in samples], dtype=np.int64)
    session, point_id = _sessions(points, split, shares, seed)
    rows = np.argsort(session, kind="stable")
    points, session, point_id = points[rows], session[rows], point_id[rows]
    started_s = np.asarray([sample.started_s for sample in samples])[rows]
    count, unknown = len(rows), np.full(len(rows), np.nan)
    return {
        "session": np.asarray(SESSIONS)[session],
        "role": np.full(count, "point"),
        "scene": scene_of(points),
        "point_id": point_id,
        "repeat": place_among_equals(point_id),
        "order": place_among_equals(session),
        "decodes": points[:, 0],
        "context_tokens": points[:, 1],
        "chunk_tokens": points[:, 2],
        "prefix_tokens": points[:, 3],
        "layout": np.full(count, ""),
        "latency_ms": np.asarray([sample.latency_ms for sample in samples])[rows],
        "event_ms": unknown,
        "flagged": np.zeros(count, dtype=np.bool_),
        "tries": np.ones(count, dtype=np.int64),
        "sm_clock_mhz": unknown,
        "memory_clock_mhz": unknown,
        "temperature_c": unknown,
        "power_w": unknown,
        "throttle": np.full(count, "unknown"),
        "started_s": started_s - started_s.min(),
    }


def session_metas(columns: Columns) -> dict[str, SessionMeta]:
    """Without a plan what was measured counts as planned; without a sentinel the machine's quiet is unknown."""
    metas: dict[str, SessionMeta] = {}
    for session in SESSIONS:
        here = columns["session"] == session
        points = len(np.unique(columns["point_id"][here]))
        metas[session] = SessionMeta(
            planned=points,
            points=points,
            rows=int(here.sum()),
            flagged=0,
            skipped=0,
            seconds=float(columns["latency_ms"][here].sum()) / 1000,
            started_at=None,
            sentinel=judge(np.empty(0), np.empty(0, dtype=np.int64)),
        )
    return metas


def domain_of(samples: Sequence[Sample]) -> Domain:
    """The box of what the log holds, cut by its largest KV: nothing outside was measured."""
    return Domain(
        max_decodes=max(1, *(s.n for s in samples)),
        max_context_tokens=max(1, *(s.k for s in samples)),
        max_chunk_tokens=max(1, *(s.c for s in samples)),
        max_prefix_tokens=max(s.u for s in samples),
        max_batch_tokens=max(s.n + s.c for s in samples),
        kv_tokens=max(s.n * s.k + s.c + s.u for s in samples),
        context_length=max(s.longest_tokens for s in samples),
    )


def _sessions(points: Points, split: Split, shares: Shares, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(session, point id) of each row."""
    if split == "time":
        return by_time(len(points), shares)
    return by_points(points, shares, seed) if split == "points" else by_replicates(points, shares)
