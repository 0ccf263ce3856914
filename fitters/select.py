"""Which estimator, and which shape of the noise: decided by blocked cross-validation in the fit session alone.

Every candidate is fitted without a fold and asked about it (folds.py). The expected time is scored by pinball
loss at 0.5 of the relative error against point medians, mean over point, value and session folds. A candidate
within TIE of the best and simpler than it wins: the registry's order is that of simplicity. Then the winner's
scale is chosen (scale.py). What is scored is the estimator before node residuals and closure, which are the
same for all: no table is built for a fold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..tables.batch import Scene
from ..tables.errors import ChunkfitError, FitError
from ..tables.grid import Ladder, scene_of
from .estimators.estimator import Estimator, Millis, SceneModel
from .folds import point_folds, session_folds, value_folds
from .metrics import pinball
from .rows import Rows, at_most, point_medians
from .scale import SCALES, scale_of

# Fewer points say nothing of the shape of a 0.99 tail: on grids of 100 to 300 means the one chosen cost 5-40% of U.
TAIL_POINTS = 1000
TIE = 0.02  # relative difference of a loss below which the simpler wins
MOST_POINTS = 6000  # fit points that the comparison uses, drawn at random: more would only take longer


@dataclass(frozen=True, slots=True)
class Candidate:
    """Held-out losses of one estimator in percent; reason: why there are none.

    expected: by kind of fold, `points`, `values` and, where there are several, `sessions`, pinball at 0.5. bound: by
    scale, pinball at 0.99.
    """

    name: str
    expected: Mapping[str, float]
    bound: Mapping[str, float]
    reason: str | None = None

    @property
    def loss(self) -> float:
        """What candidates are ranked by."""
        return float(np.mean(list(self.expected.values()))) if self.expected else float("inf")

    @property
    def scale(self) -> str:
        """The shape of the noise; ties go to proportional."""
        tail = self.bound.get("tail", float("inf"))  # not asked of few points
        return "tail" if tail < (1 - TIE) * self.bound["proportional"] else "proportional"

    def document(self) -> dict[str, Any]:
        """As it is stored in the table."""
        return {
            "name": self.name,
            "pinball_50_percent": dict(self.expected),
            "pinball_99_percent": dict(self.bound),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Selection:
    winner: Candidate
    candidates: tuple[Candidate, ...]
    why: str


def select(estimators: Mapping[str, Estimator], rows: Rows, ladders: Mapping[Scene, Ladder]) -> Selection:
    """The best of `estimators`, given in order of simplicity.

    Raises FitError when none of them can be fitted; with one alone, its own error.
    """
    if len(estimators) == 1:
        ((name, only),) = estimators.items()
        candidate = scored(name, only, rows, ladders)
        return Selection(candidate, (candidate,), f"{name} was asked for")
    few = at_most(rows, MOST_POINTS)
    candidates = tuple(_tried(name, candidate, few, ladders) for name, candidate in estimators.items())
    able = [candidate for candidate in candidates if candidate.reason is None]
    if not able:
        raise FitError("no fitter can fit these rows: " + "; ".join(f"{c.name}: {c.reason}" for c in candidates))
    best = min(able, key=lambda candidate: candidate.loss)
    winner = next(candidate for candidate in able if candidate.loss * (1 - TIE) <= best.loss)
    return Selection(winner, candidates, _why(winner, best, able))


def scored(name: str, estimator: Estimator, rows: Rows, ladders: Mapping[Scene, Ladder]) -> Candidate:
    """The candidate with its losses. Raises what the estimator raises."""
    expected: dict[str, float] = {}
    kinds = SCALES if rows.point_count >= TAIL_POINTS else SCALES[:1]
    bound: dict[str, list[float]] = {kind: [] for kind in kinds}
    kinds_of_folds = {"points": point_folds(rows), "values": value_folds(rows), "sessions": session_folds(rows)}
    for folds, held_out in kinds_of_folds.items():
        losses = []
        for held in held_out:
            learn, asked = rows.where(~held), rows.where(held)
            models = estimator(learn, {s: ladders[s] for s in learn.scenes() if s in ladders})
            asked = asked.where(np.isin(scene_of(asked.points), [scene.value for scene in models]))
            if not len(asked):
                continue
            medians = point_medians(asked)
            off = (medians.latency_ms - _predict(models, medians)[0]) / medians.latency_ms
            losses.append(pinball(off, 0.5))
            if folds == "points":
                for kind, loss in _bound_losses(models, learn, asked, kinds).items():
                    bound[kind].append(loss)
        if losses:
            expected[folds] = 100 * float(np.mean(losses))
    return Candidate(name, expected, {kind: 100 * float(np.mean(loss)) for kind, loss in bound.items()})


def _tried(name: str, estimator: Estimator, rows: Rows, ladders: Mapping[Scene, Ladder]) -> Candidate:
    try:
        return scored(name, estimator, rows, ladders)
    except ModuleNotFoundError as error:
        return Candidate(name, {}, {}, f"{error.name} is not installed: pip install 'chunkfit[fit]'")
    except ChunkfitError as error:
        return Candidate(name, {}, {}, str(error))


def _bound_losses(
    models: Mapping[Scene, SceneModel], learn: Rows, asked: Rows, kinds: Sequence[str]
) -> dict[str, float]:
    """Pinball at 0.99 of E + m scale by scale, m from the rows that were fitted."""
    losses = {}
    for kind in kinds:
        median, tail = _predict(models, learn)
        scale = scale_of(kind, median, median, tail)
        multiplier = np.quantile((learn.latency_ms - median) / scale, 0.99)
        median, tail = _predict(models, asked)
        bound = median + multiplier * scale_of(kind, median, median, tail)
        losses[kind] = pinball((asked.latency_ms - bound) / asked.latency_ms, 0.99)
    return losses


def _predict(models: Mapping[Scene, SceneModel], rows: Rows) -> tuple[Millis, Millis]:
    median, tail = np.zeros(len(rows)), np.zeros(len(rows))
    names = scene_of(rows.points)
    for scene, model in models.items():
        here = names == scene.value
        if here.any():
            median[here] = model.expected.total_ms(rows.points[here])
            tail[here] = model.tail_ms(rows.points[here])
    return median, tail


def _why(winner: Candidate, best: Candidate, able: list[Candidate]) -> str:
    if winner is not best:
        return (
            f"{winner.name}: held-out pinball at 0.5 {winner.loss:.3f}%, within {TIE:.0%} of {best.name} "
            f"({best.loss:.3f}%) and simpler"
        )
    others = [candidate for candidate in able if candidate is not winner]
    if not others:
        return f"{winner.name}: the only one that could be fitted"
    second = min(others, key=lambda candidate: candidate.loss)
    return f"{winner.name}: held-out pinball at 0.5 {winner.loss:.3f}%, the next best {second.name} {second.loss:.3f}%"
