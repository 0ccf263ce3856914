"""Unannounced steps in n + c, found in the fit session, with their evidence.

Matrix tiles and captured graphs make the time jump from one total n + c to the next. Both sides of a planned step were
measured; other steps are looked for here. The features' part of each point's time is subtracted (scene_experts); the
rest should be a smooth function of n + c. At every gap between measured totals two lines in log n + c are fitted, one a
side and scene, and a common jump between them is tested: a regression discontinuity (Imbens & Lemieux 2008) with a
triangular window and Huber weights. The clearest jump is accepted, then the next is looked for beside it, until none is
clear. A jump must also be clearer than any bend: lines that end beside the floor of streaming weights see a jump there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tables.batch import Scene
from ..tables.grid import Ladder, batch_totals
from .estimators.scene_experts import MIN_SCENE_ROWS, ladder_and_features
from .numerics import huber_weights, reweighted
from .rows import Rows, at_most, point_medians

FIRST_TOTAL = 16  # below, every total is a knot of the ladder
WINDOW_RATIO = 1.4  # of totals that a side reaches
MIN_SIDE_POINTS = 8
MIN_RISE = 0.015  # of the ladder: a smaller step costs more than it explains
MIN_STANDARD_ERRORS = 6.0  # some 500 gaps are tried
MIN_BEND_EVIDENCE = 16.0  # n log(loss of a bend / loss of a jump) below which the bend is the simpler explanation
MOST_STEPS = 16
MOST_SEARCHED_POINTS = 6000  # drawn at random: hundreds a window
PLACE_RATIO = 1.06  # of totals within which the place of a step is looked for
SAME_STEP_RATIO = 1.03  # two steps nearer than this are one, whose place is uncertain
MIN_LADDER_SHARE = 0.3  # of a point's time, for the point to show the ladder

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FoundStep:
    """A step and its evidence.

    total: first n + c past the step; it lies after `below` and at or before `above`, both measured. rise: of the
    ladder, as a share. standard_errors: rise over its standard error. points, rows: before and after.
    """

    total: int
    below: int
    above: int
    rise: float
    standard_errors: float
    points: tuple[int, int]
    rows: tuple[int, int]

    def document(self) -> dict[str, Any]:
        """As it is stored in the table."""
        return {
            "total": self.total,
            "between": [self.below, self.above],
            "rise_percent": 100 * self.rise,
            "standard_errors": self.standard_errors,
            "points": list(self.points),
            "rows": list(self.rows),
        }


@dataclass(frozen=True, slots=True)
class _Ladders:
    """The ladder's part of each point; all (points,).

    log_ms: its logarithm. share: of the point's time. totals: n + c. scene: number. repeats: rows of the point.
    """

    log_ms: Floats
    share: Floats
    totals: NDArray[np.int64]
    scene: NDArray[np.int64]
    repeats: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Fit:
    """Two lines a scene with a jump between them, and the points of its window around `centre`."""

    step: FoundStep
    centre: float
    jump: float  # of the logarithm
    loss: float  # of squares, under the last weights
    distance: float  # sum of absolute residuals: comparable between gaps of one window
    x: Floats
    scene: NDArray[np.int64]
    y: Floats
    trust: Floats
    known_steps: Floats  # columns

    def is_clear(self) -> bool:
        return self.jump >= np.log1p(MIN_RISE) and self.step.standard_errors >= MIN_STANDARD_ERRORS


def find_steps(rows: Rows, ladders: Mapping[Scene, Ladder], known: Sequence[int]) -> list[FoundStep]:
    """Steps of the fit rows that are not among `known`, by total. ladders: with the known steps only."""
    data = _ladders(at_most(rows, MOST_SEARCHED_POINTS), ladders)
    if data is None:
        return []
    new_steps: list[FoundStep] = []
    taken = [step for step in known if step > 1]
    while len(new_steps) < MOST_STEPS:
        best = _clearest(data, taken)
        if best is None:
            break
        new_steps.append(best)
        taken.append(best.total)
    return sorted(new_steps, key=lambda step: step.total)


def _ladders(rows: Rows, ladders: Mapping[Scene, Ladder]) -> _Ladders | None:
    parts = []
    for number, (scene, ladder) in enumerate(ladders.items()):
        scene_rows = rows.scene(scene)
        if len(scene_rows) < MIN_SCENE_ROWS:
            continue
        medians = point_medians(scene_rows)
        ladder_ms = medians.latency_ms - ladder_and_features(medians, scene, ladder).base_ms(medians.points)
        share = ladder_ms / medians.latency_ms
        shown = share >= MIN_LADDER_SHARE
        repeats = np.bincount(np.unique(scene_rows.point_id, return_inverse=True)[1])
        totals = batch_totals(medians.points)
        parts.append(
            [np.log(ladder_ms[shown]), share[shown], totals[shown], np.full(shown.sum(), number), repeats[shown]]
        )
    if not parts:
        return None
    return _Ladders(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _clearest(data: _Ladders, taken: Sequence[int]) -> FoundStep | None:
    """The clearest jump upwards, at the gap of the least residuals; None when none is clear."""
    totals = np.unique(data.totals)
    totals = totals[totals >= FIRST_TOTAL]
    gaps = [
        (low, high)
        for low, high in zip(totals[:-1].tolist(), totals[1:].tolist(), strict=True)
        if not any(low / SAME_STEP_RATIO < step <= high * SAME_STEP_RATIO for step in taken)
    ]
    tried = [fit for low, high in gaps if (fit := _jump(data, low, high, taken, (low * high) ** 0.5)) is not None]
    clear = [fit for fit in tried if fit.is_clear() and not _bend_explains(fit)]
    if not clear:
        return None
    best = max(clear, key=lambda fit: fit.step.standard_errors)
    # The step need not lie in the clearest gap: within one window it lies in the gap of the least distance.
    near = [
        (low, high)
        for low, high in gaps
        if best.step.below / PLACE_RATIO < low and high < best.step.above * PLACE_RATIO
    ]
    placed = [_jump(data, low, high, taken, best.centre) for low, high in near]
    return min((fit for fit in placed if fit is not None), key=lambda fit: fit.distance, default=best).step


def _jump(data: _Ladders, below: int, above: int, taken: Sequence[int], centre: float) -> _Fit | None:
    """Lines that jump between `below` and `above`, in the window around `centre`; None with too few points."""
    away = np.log(data.totals / centre)
    near = np.abs(away) < np.log(WINDOW_RATIO)
    for number in np.unique(data.scene[near]):  # a scene that ends at the gap fits anything there
        here = near & (data.scene == number)
        near &= ~here | (min(away[here].max(), -away[here].min()) > np.log(WINDOW_RATIO) / 2)
    x, scene, after = away[near], data.scene[near], data.totals[near] >= above
    sides = int((~after).sum()), int(after.sum())
    if min(sides) < MIN_SIDE_POINTS:
        return None
    at = float(np.log((below * above) ** 0.5 / centre))
    known = np.column_stack([data.totals[near] >= step for step in taken] or [np.zeros(len(x))]).astype(np.float64)
    columns = [after[:, None].astype(np.float64), known]
    for number in np.unique(scene):
        here = (scene == number)[:, None]
        columns.append(here * np.column_stack([np.ones(len(x)), (x - at) * after, (x - at) * ~after]))
    design, y = np.hstack(columns), data.log_ms[near]
    share = data.share[near]
    weight = share**2 * (1 - np.abs(x) / np.log(WINDOW_RATIO))

    def lines(trust: Floats) -> tuple[Floats, Floats, int]:
        root = np.sqrt(weight * trust)[:, None]
        solution, _, rank, _ = np.linalg.lstsq(design * root, y * root[:, 0], rcond=1e-10)
        return solution, y - design @ solution, rank

    solution, off, rank = reweighted(lines, lambda fit: fit[1] * share, len(y))
    trust = weight * huber_weights(off * share)
    inverse = np.linalg.pinv(design.T @ (design * trust[:, None]), rcond=1e-10)
    # The weights hold both precisions (up to a factor) and the window: the sandwich estimator separates them.
    meat = design.T @ (design * (trust**2 * off**2)[:, None]) * len(y) / max(len(y) - rank, 1)
    error = float(np.sqrt(max((inverse @ meat @ inverse)[0, 0], 1e-12)))
    repeats = data.repeats[near]
    rows = int(repeats[~after].sum()), int(repeats[after].sum())
    loss, distance = float((trust * off**2).sum()), float((weight**0.5 * np.abs(off)).sum())
    totals = data.totals[near]
    below, above = int(totals[~after].max()), int(totals[after].min())  # of the points in the window
    jump = float(solution[0])
    step = FoundStep(_likely(below, above), below, above, float(np.expm1(jump)), jump / error, sides, rows)
    return _Fit(step, centre, jump, loss, distance, x, scene, y, trust, known)


def _bend_explains(fit: _Fit) -> bool:
    """Whether lines with one common bend fit the points as well as lines that jump.

    A bend beside the gap, where the floor of streaming weights ends, looks like a jump to lines that end at the gap.
    """
    root = np.sqrt(fit.trust)[:, None]
    for bend in np.linspace(-0.9, 0.9, 19) * np.log(WINDOW_RATIO):
        columns = [fit.known_steps]
        for number in np.unique(fit.scene):
            here = (fit.scene == number)[:, None]
            lines = np.column_stack([np.ones(len(fit.x)), fit.x, np.maximum(fit.x - bend, 0.0)])
            columns.append(here * lines)
        design = np.hstack(columns)
        solution = np.linalg.lstsq(design * root, fit.y * root[:, 0], rcond=1e-10)[0]
        loss = float((fit.trust * (fit.y - design @ solution) ** 2).sum())
        if len(fit.y) * np.log(loss / fit.loss) < MIN_BEND_EVIDENCE:
            return True
    return False


def _likely(below: int, above: int) -> int:
    """The first total past the step: after the total of the gap with the largest power of two, a likely tile's end."""
    return max(range(below, above), key=lambda last: (last & -last, last)) + 1
