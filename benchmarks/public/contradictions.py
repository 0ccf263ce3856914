"""Which measurements contradict an order: more work, and less time in every repeat."""

from __future__ import annotations

import numpy as np

from chunkfit.fitters.rows import Rows, point_medians

LEAST = 1.02  # ratio of medians below which nothing is said


def contradictions(rows: Rows) -> list[str]:
    """Pairs of points that differ along one axis alone and are neighbours there; all repeats of the one with more
    work took less than all of the other. The largest falls first."""
    medians = point_medians(rows)
    low, high = np.full(len(medians), np.inf), np.zeros(len(medians))
    place = np.searchsorted(medians.point_id, rows.point_id)
    np.minimum.at(low, place, rows.latency_ms)
    np.maximum.at(high, place, rows.latency_ms)
    found = []
    for axis, name in enumerate("nkcu"):
        order = np.lexsort((medians.points[:, axis], *np.delete(medians.points, axis, axis=1).T))
        same = (np.delete(np.diff(medians.points[order], axis=0), axis, axis=1) == 0).all(axis=1)
        for i in np.flatnonzero(same):
            a, b = order[i], order[i + 1]
            ratio = medians.latency_ms[a] / medians.latency_ms[b]
            if high[b] < low[a] and ratio > LEAST:
                at = ", ".join(f"{m} {v:,}" for m, v in zip("nkcu", medians.points[a], strict=True) if v and m != name)
                text = (
                    f"{name} {medians.points[a, axis]:,} -> {medians.points[b, axis]:,} at {at}: "
                    f"{medians.latency_ms[a]:,.4g} -> {medians.latency_ms[b]:,.4g} ms"
                )
                found.append((ratio, text))
    return [text for _, text in sorted(found, reverse=True)]
