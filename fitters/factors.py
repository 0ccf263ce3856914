"""What batches take that a table reads as something else: unequal contexts at their mean, several chunks as one."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

import numpy as np

from ..profiler.columns import Role
from ..profiler.profile import Profile
from ..tables.lookup import WEIGHT_ONE
from .margin import order_statistic, points_needed

# The factor covers this share of such batches with this confidence, by the order statistic that the bound itself
# rests on. More would need 59 pairs and more of the session; where a batch is not covered, its bound is short by
# what the largest ratios differ.
SHARE = 0.90
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class PairFactor:
    """factor: at least 1, a multiple of 1/4096; None where there are too few pairs."""

    factor: float | None
    detail: str


def pair_factor(profile: Profile, role: Role) -> PairFactor:
    """Factor of the pairs of one role ("unequal" or "chunks") in the fit session.

    A pair is a point with a layout and the point of the same n, k, c, u without, timed in turn: its ratio is the median
    over the repeats, each beside its neighbour in time. What stalls an iteration or slows a machine for a while has
    nothing to do with the layout and is in the noise margin already. (Of the fastest iteration of each, a change of
    speed between the last two is the ratio.)
    """
    part = profile.select("fit", role)
    layouts, latency = part.columns["layout"], part.columns["latency_ms"]
    times: dict[tuple[int, ...], dict[str, list[float]]] = {}
    for point, layout, ms in zip(part.points().tolist(), layouts.tolist(), latency.tolist(), strict=True):
        times.setdefault(tuple(point), {}).setdefault(layout, []).append(ms)
    ratios = [
        statistics.median(mine / other for mine, other in zip(measured, state[""], strict=False))
        for state in times.values()
        if "" in state
        for layout, measured in state.items()
        if layout
    ]
    k = order_statistic(len(ratios), SHARE, CONFIDENCE)
    if k is None:
        needed = points_needed(SHARE, CONFIDENCE)
        return PairFactor(None, f"not measured: {len(ratios)} pairs of equal totals; needs {needed}")
    at = float(np.sort(ratios)[k - 1])
    factor = math.ceil(max(1.0, at) * WEIGHT_ONE) / WEIGHT_ONE
    return PairFactor(
        factor,
        f"order statistic {k} of {len(ratios)} ratios {at:.4f}, at least 1: pairs of equal totals measured side by "
        f"side, median {np.median(ratios):.4f}, largest {max(ratios):.4f}; only such batches are raised by it",
    )
