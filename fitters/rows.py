"""Profile rows as the fitters read them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..files.errors import CertificationError
from ..profiler.profile import Profile
from ..tables.batch import SCENES, Scene
from ..tables.grid import Points, scene_codes

REPEATS = 3  # rows a point, on average, that a limit of points leaves room for: as many as a sweep takes


@dataclass(frozen=True, slots=True)
class Rows:
    """points: (rows, 4) int64 n, k, c, u. latency_ms, point_id, flagged: (rows,).

    joined: first point id of each further session, where rows of several stand one after the other.
    codes: (rows,) int8, the scene of each row as its place in SCENES; made from the points unless given.
    """

    points: Points
    latency_ms: NDArray[np.float64]
    point_id: NDArray[np.int64]
    flagged: NDArray[np.bool_]
    joined: tuple[int, ...] = ()
    codes: NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, dtype=np.int8))

    def __post_init__(self) -> None:
        if len(self.codes) != len(self.points):
            object.__setattr__(self, "codes", scene_codes(self.points))

    def __len__(self) -> int:
        return len(self.latency_ms)

    def where(self, mask: NDArray[np.bool_] | NDArray[np.int64]) -> Rows:
        points, latency_ms, point_id = self.points[mask], self.latency_ms[mask], self.point_id[mask]
        return Rows(points, latency_ms, point_id, self.flagged[mask], self.joined, self.codes[mask])

    def mask_of(self, scenes: Iterable[Scene]) -> NDArray[np.bool_]:
        """Which rows are of one of the scenes, (rows,)."""
        return np.isin(self.codes, [SCENES.index(scene) for scene in scenes])

    def scene(self, scene: Scene) -> Rows:
        return self.where(self.mask_of((scene,)))

    def scenes(self) -> list[Scene]:
        """Scenes that have rows, in the usual order."""
        return [SCENES[code] for code in np.unique(self.codes).tolist()]

    @property
    def point_count(self) -> int:
        return len(np.unique(self.point_id))


def rows_of(profile: Profile, session: str, role: str = "point") -> Rows:
    """Rows of one session. Raises CertificationError when it has none."""
    selected = profile.select(session=session, role=role)
    if role == "point" and not len(selected):
        raise CertificationError(
            f"profile has no rows of session {session!r}; expected fit, calibrate and test sessions: "
            "run `chunkfit profile` to its end (or --resume it)"
        )
    columns = selected.columns
    return Rows(selected.points(), columns["latency_ms"], columns["point_id"], columns["flagged"], profile.meta.joined)


def shared_rows(profile: Profile) -> Rows:
    """Fit session's rows of points that the calibrate session has too: a plan's anchors, all of a log by replicates."""
    imported = profile.meta.imported
    return rows_of(profile, "fit", role="point" if imported and imported.split == "replicates" else "anchor")


def held_out(profile: Profile, session: str, scenes: Iterable[Scene]) -> Rows:
    """One row per point of the calibrate or test session, of the fitted scenes.

    Raises CertificationError when there is none.
    """
    rows = rows_of(profile, session)
    kept = rows.where(rows.mask_of(scenes))
    if not len(kept):
        raise CertificationError(f"session {session} has no rows of the scenes that were fitted; profile them too")
    # The plan times a point once here; should a profile hold more, the first one counts: rows of one point
    # are not independent.
    _, first = np.unique(kept.point_id, return_index=True)
    return kept.where(np.sort(first))


def point_medians(rows: Rows) -> Rows:
    """One row per point: the median over its repeats; flagged when any repeat is."""
    ids, first, inverse = np.unique(rows.point_id, return_index=True, return_inverse=True)
    order = np.lexsort((rows.latency_ms, inverse))
    starts = np.searchsorted(inverse[order], np.arange(len(ids)))
    counts = np.bincount(inverse)
    sorted_ms = rows.latency_ms[order]
    low = sorted_ms[starts + (counts - 1) // 2]
    high = sorted_ms[starts + counts // 2]
    flagged = np.bincount(inverse, weights=rows.flagged) > 0
    return Rows(rows.points[first], (low + high) / 2, ids, flagged, rows.joined)


def at_most(rows: Rows, points: int) -> Rows:
    """Rows of `points` points drawn at random, at most REPEATS for each on average, the same ones each time.

    All rows where there are no more.
    """
    rng = np.random.default_rng(0)
    ids = np.unique(rows.point_id)
    if len(ids) > points:
        rows = rows.where(np.isin(rows.point_id, rng.choice(ids, points, replace=False)))
    if len(rows) > REPEATS * points:
        rows = rows.where(np.sort(rng.choice(len(rows), REPEATS * points, replace=False)))
    return rows
