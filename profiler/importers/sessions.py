"""One log into fit, calibrate and test: by time, by points, or by the replicates of each point.

By time: the first rows fit, the next calibrate, the last test; the past answers for the future, and every row is
a draw of its own. By points: all rows of one (n, k, c, u) go to one session, drawn at random within each scene,
so that no session sees a batch that another was judged on. By replicates: of the rows of one (n, k, c, u), in the
order of the log, the first fit, the next calibrate, the last test; three rows are one each. A batch with fewer fits
alone. That is for a table of a few repeated batches, which has too few of them to leave some out, and it says nothing
about the batches between them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from ...files.errors import UsageError
from ...tables.domain import Domain
from ...tables.grid import Points, scene_of
from ..columns import Columns
from ..condition import judge
from ..meta import SessionMeta
from ..plan import SESSIONS
from .samples import LoggedIteration, Split

Shares = tuple[int, int, int]
DEFAULT_SHARES: Shares = (60, 20, 20)
SPLITS: tuple[Split, ...] = get_args(Split)


def parse_shares(text: str) -> Shares:
    """`60,20,20` -> percent of fit, calibrate and test. Raises UsageError."""
    parts = text.split(",")
    if len(parts) != 3 or not all(re.fullmatch(r"[1-9][0-9]?", part.strip()) for part in parts):
        raise UsageError(f"--shares {text!r}: expected three whole percentages, fit,calibrate,test, such as 60,20,20")
    fit, calibrate, test = (int(part) for part in parts)
    if fit + calibrate + test != 100:
        raise UsageError(f"--shares {text!r}: the sum is {fit + calibrate + test}; expected 100")
    return fit, calibrate, test


def parse_split(text: str) -> Split:
    """Raises UsageError."""
    for split in SPLITS:
        if text == split:
            return split
    raise UsageError(f"--split {text!r}: expected one of {', '.join(SPLITS)}")


def by_time(rows: int, shares: Shares) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(session, point id) of rows in the order of time; sessions as indices of SESSIONS."""
    return _cut(rows, shares), np.arange(rows)


def by_points(points: Points, shares: Shares, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(session, point id) of each row of `points` (rows, 4)."""
    unique, ids = np.unique(points, axis=0, return_inverse=True)
    session_of = np.empty(len(unique), dtype=np.int64)
    scenes = scene_of(unique)
    rng = np.random.default_rng(seed)
    for scene in np.unique(scenes):
        here = rng.permutation(np.flatnonzero(scenes == scene))
        session_of[here] = _cut(len(here), shares)
    return session_of[ids], ids.astype(np.int64)


def by_replicates(points: Points, shares: Shares) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(session, point id) of each row of `points` (rows, 4), which are in the order of time."""
    _, ids, counts = np.unique(points, axis=0, return_inverse=True, return_counts=True)
    ids = ids.ravel().astype(np.int64)
    fit, calibrate = (-(-share * counts // 100) for share in np.cumsum(shares)[:2])
    # A row for each session before the shares are looked at.
    fit = np.where(counts < len(SESSIONS), counts, np.clip(fit, 1, counts - 2))
    calibrate = np.where(counts < len(SESSIONS), counts, np.clip(calibrate, fit + 1, counts - 1))
    place = place_among_equals(ids)
    return (place >= fit[ids]).astype(np.int64) + (place >= calibrate[ids]), ids


def place_among_equals(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """0, 1, ... for the first, second, ... row of each value."""
    rows = np.argsort(values, kind="stable")
    ordered = values[rows]
    starts = np.searchsorted(ordered, ordered)
    place = np.empty(len(values), dtype=np.int64)
    place[rows] = np.arange(len(values)) - starts
    return place


def _cut(count: int, shares: Shares) -> NDArray[np.int64]:
    """`count` places in order, the shares one after the other; of few places the earlier sessions get theirs."""
    ends = -(-np.cumsum(shares) * count // 100)
    session: NDArray[np.int64] = np.searchsorted(ends[: len(SESSIONS) - 1], np.arange(count), side="right")
    return session


def columns_of(samples: Sequence[LoggedIteration], split: Split, shares: Shares, seed: int) -> Columns:
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


def domain_of(samples: Sequence[LoggedIteration]) -> Domain:
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
