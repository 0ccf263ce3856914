"""The evidence of a table, computed from a profile alone: used once by `fit` and again by `validate`."""

from __future__ import annotations

import numpy as np

from ..files.errors import CertificationError
from ..profiler.meta import ProfileMeta
from ..tables.arrays import TableArrays
from ..tables.batch import Scene
from ..tables.grid import scene_of
from ..tables.schema_v1 import CertificateV1, CountsV1, TestV1
from .margin import order_statistic
from .metrics import block_bootstrap, counts, errors
from .rows import Rows

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
    names = scene_of(test.points)
    by_scene = {s.value: names == s.value for s in test.scenes()}
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


def _by_scene(arrays: TableArrays, rows: Rows) -> dict[Scene, CountsV1]:
    return {scene: counts(part, arrays.read(part.points)[1]) for scene in rows.scenes() for part in [rows.scene(scene)]}
