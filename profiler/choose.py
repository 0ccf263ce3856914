"""Where the next points of the fit session go: the cells whose expected time is known least.

A cell's error is that of points left out of the fit (FOLDS folds), in the cell and, with half the weight, in the
cells beside it, shrunk towards its scene's. What a further point gains falls with the square of the points that
are there, so points are dealt out one by one to the cell where weight x log bracket x (error / points)^2 is largest.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..files.errors import DeviceMemoryError
from ..tables.batch import SCENES
from ..tables.grid import Points
from ..tables.predictor import Predictor
from .journal import Choice, JournalContents, MeasuredLine
from .plan import PlanPoint, SweepPlan
from .rounds import round_points
from .sampling import AXES, Point, candidates, inside
from .traffic import Cells, Traffic

Floats = NDArray[np.float64]

FOLDS = 4
FEWEST = 20  # points to choose others by
# A cell's error is its scene's until about so many points in and around it say otherwise.
SHRINK = 4.0
# Larger errors count as this quantile of their scene's: one stalled point is no reason to go back, a region is.
LARGEST = 0.95
# Log bracket of a flat cell: its level has to be known too.
FLAT = 0.1
# Of a round at most this share goes to one cell: what is known of it is old by then.
CELL_SHARE = 0.05
# Of the cells' weights this share is the plan's law's, whatever the traffic is: no cell is left blind.
LAW_SHARE = 0.1
CANDIDATES = 4096  # a scene and round


@dataclass(frozen=True, slots=True)
class CellErrors:
    """Per cell (cells,): held-out relative error, log of the longest over the shortest time in it, points measured
    in it, weight (adds up to 1; 0 outside the domain)."""

    error: Floats
    bracket: Floats
    points: Floats
    weight: Floats

    def worst(self) -> int:
        """The cell with the largest error among those with weight."""
        return int(np.argmax(np.where(self.weight > 0, self.error, -1.0)))


def journal_choice(plan: SweepPlan, contents: JournalContents, predictor: Predictor) -> Choice:
    """The next round of a sweep, from what its journal holds of the fit session. The same for the same journal."""
    by_id = {point.point_id: point.point for point in contents.fit_points(plan)}
    lines = [
        line
        for line in contents.lines
        if isinstance(line, MeasuredLine) and line.session == "fit" and line.role == "point"
    ]
    points = np.asarray([by_id[line.point_id] for line in lines], dtype=np.int64).reshape(-1, 4)
    latency_ms = np.asarray([np.median([latency for latency, _ in line.repeats]) for line in lines])
    return next_choice(plan, contents.choices(), points, latency_ms, predictor)


def next_choice(
    plan: SweepPlan, earlier: Sequence[Choice], points: Points, latency_ms: Floats, predictor: Predictor
) -> Choice:
    """The round after `earlier`, from the medians (m,) of the fit session's points (m, 4).

    Raises DeviceMemoryError when so little fitted the device that there is nothing to choose by.
    """
    assert plan.rounds is not None  # asked by sessions of such plans only
    if len(points) < FEWEST:
        raise DeviceMemoryError(
            f"fit session: {len(points)} points could be measured; expected at least {FEWEST} to choose others by: "
            "the others did not fit the device; take a smaller domain or model"
        )
    cells = Cells(plan.domain)
    fresh = fresh_points(cells, plan.step_totals, np.random.default_rng([plan.seed, 1 + len(earlier)]))
    errors = cell_errors(cells, cell_weights(cells, fresh, plan.traffic), points, latency_ms, predictor, fresh)
    worst = errors.worst()
    begun = [point for choice in earlier for point in choice.points]
    taken = {point.point for point in (*plan.fit, *plan.calibrate, *plan.test, *begun)}
    chosen: list[Point] = []
    if errors.error[worst] >= plan.rounds.tolerance:
        chosen = choose(cells, errors, fresh, round_points(len(points), plan.rounds.points - len(begun)), taken)
    return Choice(
        round=1 + len(earlier),
        points=tuple(
            PlanPoint.at(point, plan.rounds.first_id + len(begun) + index, "point", plan.rounds.repeats)
            for index, point in enumerate(chosen)
        ),
        measured=len(points),
        worst=cells.title(worst),
        worst_error=float(errors.error[worst]),
        stopped=None if chosen else "tolerance" if errors.error[worst] < plan.rounds.tolerance else "points",
    )


def fresh_points(cells: Cells, step_totals: Sequence[int], rng: np.random.Generator) -> Points:
    """Draws of the plan's law inside the domain, of all scenes."""
    drawn = [
        candidates(cells.domain, scene, step_totals, rng.random((CANDIDATES, len(AXES[scene]) + 2))) for scene in SCENES
    ]
    points = np.concatenate(drawn)
    return points[inside(cells.domain, points)]


def cell_weights(cells: Cells, fresh: Points, traffic: Traffic | None) -> Floats:
    """(cells,): the law's share of each, scenes in equal shares, and with traffic mostly the traffic's."""
    drawn = np.bincount(cells.of(fresh), minlength=cells.count)
    of_scene = np.bincount(cells.scenes, weights=drawn)[cells.scenes]
    law: Floats = drawn / of_scene / len(SCENES)
    return law if traffic is None else LAW_SHARE * law + (1 - LAW_SHARE) * traffic.per_cell(cells)


def cell_errors(
    cells: Cells, weight: Floats, points: Points, latency_ms: Floats, predictor: Predictor, fresh: Points
) -> CellErrors:
    """What `predictor` gets wrong at points (m, 4) that it was not fitted to, by cell; `fresh` are in all of them."""
    fold = np.arange(len(points)) % FOLDS
    held, anywhere = np.empty(len(points)), np.empty(len(fresh))
    for f in range(FOLDS):
        out = fold == f
        predicted = predictor(points[~out], latency_ms[~out], np.concatenate([points[out], fresh]))
        held[out], anywhere = predicted[: int(out.sum())], predicted[int(out.sum()) :]
    off = np.abs(latency_ms / held - 1)
    cell, scene = cells.of(points), cells.scenes[cells.of(points)]
    # A scene of which nothing could be measured is taken to be as uncertain as all.
    usual = np.full(len(SCENES), off.mean())
    for index in np.unique(scene):
        own = scene == index
        off[own] = np.minimum(off[own], np.quantile(off[own], LARGEST))
        usual[index] = off[own].mean()
    near = cells.nearness
    total = near @ np.bincount(cell, off, cells.count) + SHRINK * usual[cells.scenes]
    counted = np.bincount(cell, minlength=cells.count).astype(np.float64)
    return CellErrors(
        error=total / (near @ counted + SHRINK),
        bracket=_log_bracket(cells.of(fresh), np.log(anywhere), cells.count),
        points=counted,
        weight=weight,
    )


def choose(cells: Cells, errors: CellErrors, fresh: Points, count: int, taken: Collection[Point]) -> list[Point]:
    """Up to `count` of the `fresh` points, none of them in `taken` and no two the same; fewer where they end."""
    waiting: dict[int, list[Point]] = {}
    free = dict.fromkeys((n, k, c, u) for n, k, c, u in fresh.tolist() if (n, k, c, u) not in taken)
    for point, cell in zip(free, cells.of(np.asarray(list(free)).reshape(-1, 4)).tolist(), strict=True):
        waiting.setdefault(cell, []).append(point)
    score = errors.weight * errors.bracket * errors.error**2
    room = np.asarray([min(len(waiting.get(cell, ())), 1 + round(CELL_SHARE * count)) for cell in range(cells.count)])
    points = errors.points.copy()
    chosen: list[Point] = []
    while len(chosen) < count and (room > 0).any():
        cell = int(np.argmax(np.where(room > 0, score / (points + 1) ** 2, -1.0)))
        chosen.append(waiting[cell].pop())
        points[cell] += 1
        room[cell] -= 1
    return chosen


def _log_bracket(cell: NDArray[np.int64], log_ms: Floats, count: int) -> Floats:
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, cell, log_ms)
    np.maximum.at(high, cell, log_ms)
    return np.where(low <= high, np.maximum(high - low, FLAT), 0.0)
