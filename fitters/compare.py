"""Differences of two tables, of two profiles, or of a profile from a table; and whether they are drift.

Drift: in some scene more than a tenth of the points differ by more than the tolerance. That finds a device that became
slower, also in one region only; single points may be noise. A table has test errors of its own: what does not exceed
them is no drift, and where they are above the tolerance the machine is too noisy to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..files.errors import UsageError
from ..profiler.profile import Profile
from ..tables.batch import SCENES, Scene
from ..tables.cost_table import CostTable
from ..tables.fingerprint import Fingerprint, Severity, differences, severity
from ..tables.grid import Points, node_points, scene_of
from ..tables.lookup import TICKS_PER_MS
from ..tables.schema_v1 import CountsV1
from .metrics import counts
from .rows import Rows

MIN_SHARED_POINTS = 30  # measured; a tenth of fewer is too few
DRIFT_QUANTILE = 0.9
OWN_ERRORS = 1.25  # of a table's test errors, up to which a difference is not more than them
SHIFT_ERRORS = 4.0  # standard errors of a median ratio, from which a shift is one whatever the noise

Side = CostTable | Profile
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SceneDifference:
    """Over the points of one scene; ratios are right over left.

    median_error: standard error of the median. p90: of |ratio - 1|. p90_margins: of |right - left| in units of the
    table's margin U - E, the wider of two; beyond_margins: share of points more than one margin apart; both None
    between profiles. worst: the ratio furthest from 1, at worst_point (n, k, c, u).
    """

    scene: Scene
    points: int
    median: float
    median_error: float
    p90: float
    p90_margins: float | None
    beyond_margins: float | None
    worst: float
    worst_point: tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Comparison:
    """fingerprint: fields that differ as (name, left, right), by severity. basis: which points were compared.

    coverage: of a profile's iterations by a table's bound, one a point. reasons: why this is drift; empty: it is not.
    noisy: why nothing can be said of a scene. unknown: fields that neither side knows, so that they may differ.
    """

    kind: str
    fingerprint: dict[Severity, list[tuple[str, Any, Any]]]
    basis: str
    tolerance: float
    scenes: tuple[SceneDifference, ...]
    coverage: CountsV1 | None
    promised: float | None
    reasons: tuple[str, ...]
    noisy: tuple[str, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Pairs:
    """points (m, 4); left, right (m,) in ms; margin (m,) or None between profiles."""

    points: Points
    left: Floats
    right: Floats
    margin: Floats | None
    basis: str


def compare(left: Side, right: Side, tolerance: float) -> Comparison:
    """Right against left; a profile is compared under a table, not a table under a profile.

    tolerance: relative, 0.05 is 5%. A fingerprint that asks for another table is drift by itself; the figures are
    given all the same. Raises UsageError for a table on the right of a profile, and where fewer than MIN_SHARED_POINTS
    measured points, or no node of two tables, can be compared.
    """
    coverage, promised = None, None
    if isinstance(left, CostTable) and isinstance(right, CostTable):
        kind, pairs = "tables", _of_tables(left, right)
    elif isinstance(left, CostTable) and isinstance(right, Profile):
        kind, pairs = "profile under table", _under(left, right)
        coverage, promised = _coverage(left, right)
    elif isinstance(left, Profile) and isinstance(right, Profile):
        kind, pairs = "profiles", _of_profiles(left, right)
    else:
        raise UsageError("compare: a profile, then a table; expected the table first, which says what is expected")
    needed = 1 if kind == "tables" else MIN_SHARED_POINTS
    if len(pairs.points) < needed:
        raise UsageError(
            f"compare: {len(pairs.points)} points in common ({pairs.basis}); expected at least {needed}: profile "
            "over the same domain (for two profiles with the same --seed too), or compare each with one table"
        )
    scenes = tuple(_by_scene(pairs))
    unlike = _fingerprint(left, right)
    own = {scene.scene: max(_own_p90(side, scene.scene) for side in (left, right)) for scene in scenes}
    found = [(scene, _judged(scene, own[scene.scene], tolerance)) for scene in scenes]
    others = ", ".join(name for name, _, _ in unlike[Severity.REFUSE])
    reasons = [
        *([f"measured on different things: {others}"] if others else []),
        *(_apart(scene, tolerance) for scene, verdict in found if verdict == "drift"),
        *_uncovered(coverage, promised),
    ]
    noisy = [
        f"{_apart(scene, tolerance)}; the table's own test errors reach {100 * own[scene.scene]:.1f}%"
        for scene, verdict in found
        if verdict == "noisy"
    ]
    unknown = [
        name
        for name in Fingerprint.model_fields
        if severity(name) is Severity.REFUSE and all(getattr(_facts(side)[0], name) is None for side in (left, right))
    ]
    return Comparison(
        kind, unlike, pairs.basis, tolerance, scenes, coverage, promised, tuple(reasons), tuple(noisy), tuple(unknown)
    )


def _own_p90(side: Side, scene: Scene) -> float:
    """P90 of the relative error of a table in its own test session, of one scene; 0 where nothing says it."""
    test = side.document.test if isinstance(side, CostTable) else None
    errors = None if test is None else test.errors.get(scene.value)
    return 0.0 if errors is None else errors.p90_percent / 100


def _judged(difference: SceneDifference, own_p90: float, tolerance: float) -> Literal["same", "drift", "noisy"]:
    """own_p90: of the table's test errors in the scene."""
    if difference.p90 <= tolerance:
        return "same"
    shift = abs(difference.median - 1)
    shifted = shift > tolerance and shift > SHIFT_ERRORS * difference.median_error
    return "drift" if difference.p90 > OWN_ERRORS * own_p90 or shifted else "noisy"


def _apart(difference: SceneDifference, tolerance: float) -> str:
    return (
        f"{difference.scene.value}: a tenth of {difference.points} points differ by "
        f"{100 * difference.p90:.1f}% and more, tolerance {100 * tolerance:g}%"
    )


def _uncovered(coverage: CountsV1 | None, promised: float | None) -> Iterator[str]:
    if coverage is not None and promised is not None and coverage.high is not None and coverage.high < promised:
        yield (
            f"the bound covers {coverage.covered} of {coverage.rows} iterations (upper 95% limit "
            f"{coverage.high:.4f}); {promised:g} is certified"
        )


def _fingerprint(left: Side, right: Side) -> dict[Severity, list[tuple[str, Any, Any]]]:
    unlike = differences(_facts(left)[0], _facts(right)[0])
    if _facts(left)[1] != _facts(right)[1]:
        unlike[Severity.WARN].append(("aggregation", _facts(left)[1], _facts(right)[1]))
    return unlike


def _facts(side: Side) -> tuple[Fingerprint, str]:
    if isinstance(side, CostTable):
        return side.fingerprint, side.document.aggregation
    return side.meta.fingerprint, side.meta.aggregation


def _of_tables(left: CostTable, right: CostTable) -> _Pairs:
    """At every node that either table measured, where both answer."""
    nodes = [
        node_points(side.arrays.axes, scene)[side.arrays.measured[scene].ravel()]
        for side in (left, right)
        for scene in side.arrays.ladders
    ]
    points = np.unique(np.concatenate(nodes), axis=0)
    shared = _answered(left, points) & _answered(right, points)
    kept = points[shared]
    (e_left, u_left), (e_right, u_right) = left.read(kept), right.read(kept)
    basis = f"{len(kept):,} of {len(points):,} nodes that either measured lie in both domains"
    return _Pairs(kept, e_left, e_right, np.maximum(u_left - e_left, u_right - e_right), basis)


def _under(table: CostTable, profile: Profile) -> _Pairs:
    """The median of each point of the profile against the table's expected time."""
    medians = {key: ms for key, ms in _medians(profile).items() if not key[4]}
    points = np.asarray([key[:4] for key in medians], dtype=np.int64).reshape(-1, 4)
    inside = _answered(table, points)
    expected, bound = table.read(points[inside])
    times = np.asarray(list(medians.values()))[inside]
    basis = f"{int(inside.sum()):,} of {len(points):,} points of the profile lie in the table's domain"
    return _Pairs(points[inside], expected, times, bound - expected, basis)


def _of_profiles(left: Profile, right: Profile) -> _Pairs:
    """The medians of points that both measured, layouts included."""
    ours, theirs = _medians(left), _medians(right)
    keys = [key for key in ours if key in theirs]
    points = np.asarray([key[:4] for key in keys], dtype=np.int64).reshape(-1, 4)
    basis = f"{len(keys):,} points are in both profiles, of {len(ours):,} and {len(theirs):,}"
    return _Pairs(points, np.asarray([ours[k] for k in keys]), np.asarray([theirs[k] for k in keys]), None, basis)


def _medians(profile: Profile) -> dict[tuple[int, int, int, int, str], float]:
    """Median latency by n, k, c, u and layout, over all sessions."""
    times: dict[tuple[int, int, int, int, str], list[float]] = {}
    layouts, latencies = profile.columns["layout"].tolist(), profile.columns["latency_ms"].tolist()
    for (n, k, c, u), layout, ms in zip(profile.points().tolist(), layouts, latencies, strict=True):
        times.setdefault((n, k, c, u, layout), []).append(ms)
    return {key: float(np.median(values)) for key, values in times.items()}


def _answered(table: CostTable, points: Points) -> NDArray[np.bool_]:
    known = table.domain.contains(points)
    known[known] = table.arrays.answers(points[known])
    return known


def _coverage(table: CostTable, profile: Profile) -> tuple[CountsV1 | None, float | None]:
    """Iterations under the bound, one a point; (None, None) where rows are no single iterations."""
    certificate = table.document.certificate
    if profile.meta.aggregation != "iteration" or certificate is None:
        return None, None
    rows = profile.select(role="point")
    _, first = np.unique(
        np.column_stack([np.unique(rows.columns["session"], return_inverse=True)[1], rows.columns["point_id"]]),
        axis=0,
        return_index=True,
    )
    points = rows.points()[first]
    inside = _answered(table, points)
    latency, flagged = rows.columns["latency_ms"][first][inside], rows.columns["flagged"][first][inside]
    once = Rows(points[inside], latency, np.arange(len(latency)), flagged)
    return counts(once, table.read(once.points)[1]), certificate.coverage


def _by_scene(pairs: _Pairs) -> Iterator[SceneDifference]:
    tick = 1 / TICKS_PER_MS  # a table may hold 0 ms
    ratios = np.maximum(pairs.right, tick) / np.maximum(pairs.left, tick)
    apart = None if pairs.margin is None else np.abs(pairs.right - pairs.left) / np.maximum(pairs.margin, tick)
    names = scene_of(pairs.points)
    for scene in SCENES:
        here = names == scene.value
        if not here.any():
            continue
        ratio, margins = ratios[here], None if apart is None else apart[here]
        worst = int(np.argmax(np.abs(np.log(ratio))))
        n, k, c, u = pairs.points[here][worst].tolist()
        yield SceneDifference(
            scene,
            len(ratio),
            float(np.median(ratio)),
            # Of a normal sample 1.2533 sd / sqrt(m), and its interquartile range is 1.349 sd.
            float(np.subtract(*np.quantile(ratio, [0.75, 0.25])) / 1.349 * 1.2533 / np.sqrt(len(ratio))),
            float(np.quantile(np.abs(ratio - 1), DRIFT_QUANTILE)),
            None if margins is None else float(np.quantile(margins, DRIFT_QUANTILE)),
            None if margins is None else float((margins > 1).mean()),
            float(ratio[worst]),
            (n, k, c, u),
        )
