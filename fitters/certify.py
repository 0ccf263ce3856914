"""The evidence of a table: its certificate, its test figures, and the gap that ordering the bound left.

Certificate and test figures are computed from a profile alone, once by `fit` and again by `validate`. The gap is the
cost of monotonicity, the ordered bound over the bound before: "no falling step" alone says nothing about a table that a
running maximum ordered.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..files.errors import CertificationError
from ..profiler.meta import ProfileMeta
from ..tables.arrays import TableArrays
from ..tables.batch import Point, Scene
from ..tables.closure import read_surface
from ..tables.grid import Points, Surface, node_points, to_ms
from ..tables.schema_v1 import CertificateV1, CountsV1, GapV1, TestV1
from .margin import order_statistic
from .metrics import block_bootstrap, counts, errors
from .rows import Rows
from .surfaces import SceneSurfaces

PLAN_LAW = (
    "the plan's law: scenes in {shares}, n, k, c, u log-uniform over the domain, one row per point, "
    "boundary and step points included; equal contexts and at most one chunk"
)
LOG_LAWS = {
    "time": "the batches of a log as they came, a later block of its time, rows taken as independent of each other; "
    "contexts by their mean, chunks by their sums",
    "points": "the batches of a log, one row for each (n, k, c, u), drawn at random within each scene; contexts by "
    "their mean, chunks by their sums",
    "replicates": "the batches that a log holds three times at least, one later row for each (n, k, c, u); the same "
    "batches were fitted, so nothing is said of those between them; contexts by their mean, chunks by their sums",
}


def law_of(meta: ProfileMeta) -> str:
    """The measure of batches that a coverage of this profile refers to, in words."""
    if meta.imported is not None:
        return LOG_LAWS[meta.imported.split]
    if meta.traffic is None:
        return PLAN_LAW.format(shares="equal shares")
    listed = ", ".join(f"{scene.value} {share:.3g}" for scene, share in meta.traffic.scenes.items())
    return PLAN_LAW.format(shares=f"shares of the traffic ({listed})")


def certificate(arrays: TableArrays, calibrate: Rows, coverage: float, confidence: float, law: str) -> CertificateV1:
    """What the shipped bound's exceedances in the calibration session certify, under `law` (see `law_of`).

    Raises CertificationError when there are more than the order statistic allows (a bound that was changed
    after certification, or data of another device).
    """
    _, bound = arrays.read(calibrate.points)
    exceedances = int((calibrate.latency_ms > bound).sum())
    k = order_statistic(len(calibrate), coverage, confidence)
    allowed = -1 if k is None else len(calibrate) - k
    if exceedances > allowed:
        raise CertificationError(
            f"{exceedances} of {len(calibrate)} calibration rows lie above the bound; {coverage:g} at "
            f"{confidence:g} confidence allows {allowed if k is not None else 'none of so few'}: fit the table again"
        )
    return CertificateV1(
        coverage=coverage,
        confidence=confidence,
        law=law,
        points=calibrate.point_count,
        rows=len(calibrate),
        exceedances=exceedances,
        allowed=allowed,
        scenes=_by_scene(arrays, calibrate),
    )


def tested(arrays: TableArrays, test: Rows) -> TestV1:
    """Coverage and errors on the test session, which nothing before has read."""
    expected, bound = arrays.read(test.points)
    low, high = block_bootstrap(test, bound)
    by_scene = {scene.value: test.mask_of((scene,)) for scene in test.scenes()}
    return TestV1(
        coverage=counts(test, bound),
        block_low=low,
        block_high=high,
        unflagged=counts(test.where(~test.flagged), bound[~test.flagged]),
        scenes=_by_scene(arrays, test),
        errors={
            name: errors(test.where(mask), expected[mask], bound[mask])
            for name, mask in (by_scene | {"all": np.ones(len(test), dtype=bool)}).items()
        },
    )


def majorant_gap(
    arrays: TableArrays, unclosed: Mapping[Scene, Surface], surfaces: Mapping[Scene, SceneSurfaces], test: Rows
) -> GapV1:
    """Gap over the test rows and over measured nodes, and the share of measured neighbours that fell."""
    ratio = np.ones(len(test))
    worst, where = 0.0, None
    pairs = falls = 0
    for scene in test.scenes():
        here = test.mask_of((scene,))
        ratio[here] = closed_over_unclosed(arrays, unclosed, scene, test.points[here])
        nodes = node_points(arrays.axes, scene)[arrays.measured[scene].ravel()]
        if len(nodes):
            over = closed_over_unclosed(arrays, unclosed, scene, nodes)
            if over.max() - 1 > worst:
                worst = float(over.max() - 1)
                where = Point(*nodes[int(over.argmax())].tolist())._asdict()
        raw_nodes = surfaces[scene].raw
        for values, measured in (
            (raw_nodes.ladder, raw_nodes.ladder_measured),
            (raw_nodes.base, raw_nodes.base_measured),
        ):
            for axis in range(values.ndim):
                both = np.logical_and(np.delete(measured, -1, axis=axis), np.delete(measured, 0, axis=axis))
                pairs += int(both.sum())
                falls += int((both & (np.diff(values, axis=axis) < 0)).sum())
    return GapV1(
        mean_percent=float(100 * (ratio - 1).mean()),
        p99_percent=float(100 * np.quantile(ratio - 1, 0.99)),
        max_node_percent=100 * worst,
        where=where,
        inversions=falls / pairs if pairs else None,
    )


def closed_over_unclosed(
    arrays: TableArrays, unclosed: Mapping[Scene, Surface], scene: Scene, points: Points
) -> NDArray[np.float64]:
    """Bound over the bound before closure at each point of a scene, shape (points,)."""
    closed, raw = (
        to_ms(read_surface(arrays.axes, scene, arrays.ladders[scene], surface, points))
        for surface in (arrays.bound[scene], unclosed[scene])
    )
    return closed / raw


def _by_scene(arrays: TableArrays, rows: Rows) -> dict[Scene, CountsV1]:
    return {scene: counts(part, arrays.read(part.points)[1]) for scene in rows.scenes() for part in [rows.scene(scene)]}
