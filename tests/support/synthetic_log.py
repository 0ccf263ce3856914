"""A log of the synthetic device's batches, as an engine writes it, with some of them taken out."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np

from chunkfit.profiler.devices import truth
from chunkfit.profiler.domains import default_domain, default_step_totals
from chunkfit.profiler.importers.ingest import ingest
from chunkfit.profiler.importers.samples import ReadOptions
from chunkfit.profiler.profile import Profile
from chunkfit.profiler.sampling import draw

COLUMNS = {"n": "n", "k": "k", "c": "c", "u": "u", "latency": "ms"}


def batches(seed: int, count: int) -> np.ndarray:
    """Batches of the plan's law in random order, (count, 4)."""
    points = draw(default_domain("synthetic"), count, default_step_totals("synthetic"), np.random.SeedSequence(seed))
    return points.points[np.random.default_rng(seed + 3).permutation(len(points.points))]


def logged(
    folder: Path,
    seed: int = 5,
    rows: int = 3000,
    keep: Callable[[np.ndarray], np.ndarray] | None = None,
    change: Callable[[np.ndarray], np.ndarray] | None = None,
    drawn: int = 6,
    since: str | None = None,
) -> Profile:
    """The profile of a log of `rows` iterations, cut by time.

    keep: which of the drawn batches, `drawn` times as many as rows, were served, a mask. change: latencies in ms
    (rows,) as they are logged. since: the first row that is kept.
    """
    points = batches(seed, drawn * rows if keep else rows)
    points = points[keep(points)][:rows] if keep else points
    assert len(points) == rows, f"only {len(points)} batches are left"
    latency = truth.sample_ms(points, np.arange(len(points)), 11, "live")
    latency = change(latency) if change else latency
    path = folder / "log.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS.values())
        writer.writerows([*point, f"{ms:.5f}"] for point, ms in zip(points.tolist(), latency.tolist(), strict=True))
    options = ReadOptions(COLUMNS, unit="ms")
    return ingest("table", path, options, aggregation="iteration", split="time", since=since).profile
