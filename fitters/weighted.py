"""Coverage of the test session as the traffic would see it: beside the plain one, never instead of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..profiler.cells import Cells
from ..profiler.profile import Profile
from ..tables.arrays import TableArrays
from .rows import held_out


@dataclass(frozen=True, slots=True)
class WeightedCoverage:
    """coverage: of the test rows, each weighted with its cell's share of the traffic. seen: share of the traffic
    in cells with test rows. rows: how many equally weighted rows would say as much (Kish 1965)."""

    coverage: float
    seen: float
    rows: float


def traffic_coverage(profile: Profile, arrays: TableArrays) -> WeightedCoverage | None:
    """None without traffic, and where none of its cells holds a test row."""
    if profile.meta.traffic is None:
        return None
    test = held_out(profile, "test", arrays.ladders)
    cells = Cells(profile.meta.domain)
    cell = cells.of(test.points)
    share = profile.meta.traffic.per_cell(cells)
    weight = share[cell] / np.bincount(cell, minlength=cells.count)[cell]
    seen = float(weight.sum())
    if not seen:
        return None
    covered = test.latency_ms <= arrays.read(test.points)[1]
    return WeightedCoverage(float(weight @ covered) / seen, min(seen, 1.0), seen**2 / float(weight @ weight))
