"""Did the engine run in one regime? A level shift in time, two modes, and coordinates that never varied apart.

All are read from the residuals log(T / E) of a table at the rows it came from. A shift is found by the largest
excursion of their cumulative sum (CUSUM; Page 1954), compared with the supremum of a Brownian bridge; residuals are
clipped, and their variance is that of sums over blocks, so that neither stalls nor slow swings look like a shift. Two
modes are two normal parts by EM that lie far apart (Ashman's D; Ashman, Bird & Zepf 1994) and each hold many rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from ..profiler.profile import Profile
from ..tables.arrays import TableArrays
from ..tables.batch import SCENES
from ..tables.grid import scene_codes
from ..tables.verdict import ConcernV1, Grade

MIN_ROWS = 100
CLIP = 4.0  # residuals, in units of their spread
BLOCKS = 30  # whose sums say how residuals vary over time
BRIDGE_LIMIT = 2.3  # P(sup |Brownian bridge| > 2.3) = 5e-5
LEAST_SHIFT = 0.03  # relative; smaller ones are what sessions differ by
LARGE_SHIFT = 0.2  # the expected time is then off by as much in one of the two regimes
MODE_DISTANCE = 4.0  # Ashman's D: two halves of a uniform distribution have 3.5, and are no modes
MODE_SHARE = 0.15  # of the rows, at least, in the rarer mode
MODE_RATIO = 1.03  # of the modes' times
LEAST_APART = 0.95  # rank correlation of two coordinates that were not varied apart
EM_STEPS = 60

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LevelShift:
    """Times are `ratio` times as long after row `row` of `rows` in time as before it."""

    row: int
    rows: int
    ratio: float


@dataclass(frozen=True, slots=True)
class TwoModes:
    """A share of the rows takes `ratio` times as long as the others."""

    share: float
    ratio: float


def regime_concerns(profile: Profile, arrays: TableArrays) -> Iterator[ConcernV1]:
    """What a profile's rows say against one regime, under the table fitted to them."""
    rows, points, residuals = _residuals(profile, arrays)
    imported = profile.meta.imported
    shift = level_shift(residuals) if imported is not None and imported.split == "time" else None
    if shift is not None:
        row, last = int(rows[shift.row]), len(profile.select())
        share = row / last
        yield ConcernV1(
            name="level_shift",
            grade=Grade.DO_NOT_USE if abs(np.log(shift.ratio)) > np.log1p(LARGE_SHIFT) else Grade.WIDE,
            reason=f"from row {row + 1:,} of {last:,} (at {100 * share:.0f}%) on iterations take "
            f"{shift.ratio:.2f} times as long as before",
            advice=f"keep one side of it: ingest again with --from {100 * share:.0f}% or --until {100 * share:.0f}%",
        )
    modes = two_modes(residuals) if shift is None else None
    if modes is not None:
        yield ConcernV1(
            name="two_modes",
            grade=Grade.WIDE,
            reason=f"{100 * modes.share:.0f}% of the iterations take {modes.ratio:.2f} times as long as the others of "
            "their batch: two modes, such as with and without a graph",
            advice="find what switches between them, and log or profile each by itself",
        )
    yield from _confounded(points)


def level_shift(residuals: Floats) -> LevelShift | None:
    """The clearest change of level of residuals log(T / E) in the order of time, (rows,); None where none is clear."""
    rows = len(residuals)
    if rows < MIN_ROWS:
        return None
    centre = np.median(residuals)
    spread = max(float(np.median(np.abs(residuals - centre))) * 1.4826, 1e-6)
    clipped = np.clip((residuals - centre) / spread, -CLIP, CLIP)
    bridge = np.cumsum(clipped - clipped.mean())
    row = int(np.argmax(np.abs(bridge[:-1]))) + 1
    ratio = float(np.exp(np.median(residuals[row:]) - np.median(residuals[:row])))
    # The variance is taken on both sides of the shift: over it, the shift itself would count as variance.
    sides = [side - side.mean() for side in (clipped[:row], clipped[row:])]
    deviation = _deviation_of_sums(np.concatenate(sides))
    far = np.abs(bridge[row - 1]) > BRIDGE_LIMIT * deviation * np.sqrt(rows)
    if not far or abs(np.log(ratio)) < np.log1p(LEAST_SHIFT):
        return None
    return LevelShift(row, rows, ratio)


def _deviation_of_sums(values: Floats) -> float:
    """Standard deviation of a sum of n values over sqrt(n), from the sums of blocks: larger where neighbours agree."""
    length = max(1, len(values) // BLOCKS)
    sums = values[: length * (len(values) // length)].reshape(-1, length).sum(axis=1)
    return max(float(sums.std() / np.sqrt(length)), float(values.std()), 1e-9)


def two_modes(residuals: Floats) -> TwoModes | None:
    """Two separate parts of the residuals, (rows,), in any order; None where one part explains them."""
    if len(residuals) < MIN_ROWS:
        return None
    values = np.clip(residuals, *np.quantile(residuals, [0.005, 0.97]))  # a tail is no mode
    low, high = np.quantile(values, [0.25, 0.75])
    centres, deviations, share = np.array([low, high]), np.full(2, max(float(values.std()) / 2, 1e-9)), 0.5
    for _ in range(EM_STEPS):
        shares = np.array([1 - share, share])
        densities = shares * np.exp(-0.5 * ((values[:, None] - centres) / deviations) ** 2) / deviations
        belongs = densities / np.maximum(densities.sum(axis=1, keepdims=True), 1e-300)
        weight = np.maximum(belongs.sum(axis=0), 1e-9)
        centres = (belongs * values[:, None]).sum(axis=0) / weight
        deviations = np.sqrt((belongs * (values[:, None] - centres) ** 2).sum(axis=0) / weight)
        deviations = np.maximum(deviations, 1e-4)
        share = float(weight[1] / len(values))
    distance = np.sqrt(2) * abs(centres[1] - centres[0]) / np.sqrt((deviations**2).sum())
    ratio = float(np.exp(abs(centres[1] - centres[0])))
    slower = share if centres[1] > centres[0] else 1 - share
    if distance < MODE_DISTANCE or ratio < MODE_RATIO or min(share, 1 - share) < MODE_SHARE:
        return None
    return TwoModes(slower, ratio)


def _residuals(profile: Profile, arrays: TableArrays) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """(row, point, log(T / E)) of the profile's point rows whose batches the table measured, in the order of time.

    By order E is the time of another batch.
    """
    rows = profile.select()
    points, latency = rows.points(), rows.columns["latency_ms"]
    known = np.isin(scene_codes(points), [SCENES.index(scene) for scene in arrays.ladders])
    for unmeasured, _ in arrays.support.unmeasured(points) if arrays.support is not None else ():
        known[unmeasured] = False
    return np.flatnonzero(known), points[known], np.log(latency[known] / arrays.read(points[known])[0])


def _confounded(points: NDArray[np.int64]) -> Iterator[ConcernV1]:
    """Decodes and contexts of which one follows from the other."""
    decoding = points[points[:, 0] > 0]
    n, k = decoding[:, 0], decoding[:, 1]
    if len(np.unique(n)) < 5 or len(np.unique(k)) < 5:
        return
    together = float(spearmanr(n, k).statistic)
    if abs(together) > LEAST_APART:
        yield ConcernV1(
            name="confounded",
            grade=Grade.WIDE,
            reason=f"decodes n and contexts k were never varied apart (rank correlation {together:+.2f}): which of the "
            "two takes the time is not known",
            advice="log or profile few decodes with short contexts and many with short ones as well",
        )
