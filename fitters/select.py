"""Which estimator, and which shape of the noise: decided by blocked cross-validation in the fit session alone.

Every candidate is fitted without a fold and asked about it (folds.py). The expected time is scored by pinball
loss at 0.5 of the relative error against point medians, mean over point, value and session folds. A candidate
within TIE of the best and simpler than it wins: the registry's order is that of simplicity. Then the winner's
scale is chosen (scale.py). What is scored is the estimator before node residuals and closure, which are the
same for all: no table is built for a fold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..files.errors import ChunkfitError, FitError
from ..tables.batch import Scene
from ..tables.grid import Ladder, scene_of
from .estimators.estimator import Estimator, Millis, SceneModel
from .folds import session_folds, value_folds
from .left_out import MOST_POINTS, LeftOut, answers, left_out
from .metrics import pinball
from .rows import Rows, at_most, point_medians
from .scale import SCALES, left_out_scale

# Fewer points say nothing of the shape of a 0.99 tail: on grids of 100 to 300 means it cost 5-40% of U. Their spread
# does no harm: most of them are neighbours of each other, and what remains is the estimator's doubt.
TAIL_POINTS = 1000
TIE = 0.02  # relative difference of a loss below which the simpler wins


@dataclass(frozen=True, slots=True)
class Candidate:
    """Held-out losses of one estimator in percent; reason: why there are none.

    expected: by kind of fold, `points`, `values` and, where there are several, `sessions`, pinball at 0.5. bound: by
    scale, pinball at 0.99. left: what it said of points that it had not seen.
    """

    name: str
    expected: Mapping[str, float]
    bound: Mapping[str, float]
    reason: str | None = None
    left: LeftOut | None = None

    @property
    def loss(self) -> float:
        """What candidates are ranked by."""
        return float(np.mean(list(self.expected.values()))) if self.expected else float("inf")

    @property
    def scale(self) -> str:
        """The shape of the noise; ties go to the simpler."""
        best = min(self.bound.values())
        return next(kind for kind, loss in self.bound.items() if loss * (1 - TIE) <= best)

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
    """The best of `estimators`, given in order of simplicity, on MOST_POINTS points at most.

    Raises FitError when none of them can be fitted; with one alone, its own error.
    """
    few = at_most(rows, MOST_POINTS)
    if len(estimators) == 1:
        ((name, only),) = estimators.items()
        candidate = scored(name, only, few, ladders)
        return Selection(candidate, (candidate,), f"{name} was asked for")
    candidates = tuple(_tried(name, candidate, few, ladders) for name, candidate in estimators.items())
    able = [candidate for candidate in candidates if candidate.reason is None]
    if not able:
        raise FitError("no fitter can fit these rows: " + "; ".join(f"{c.name}: {c.reason}" for c in candidates))
    best = min(able, key=lambda candidate: candidate.loss)
    winner = next(candidate for candidate in able if candidate.loss * (1 - TIE) <= best.loss)
    return Selection(winner, candidates, _why(winner, best, able))


def scored(name: str, estimator: Estimator, rows: Rows, ladders: Mapping[Scene, Ladder]) -> Candidate:
    """The candidate with its losses. Raises what the estimator raises."""
    left = left_out(estimator, rows, ladders)
    losses = [_expected_loss(part.rows, part.expected_ms) for part in _folds(left)]
    expected = {"points": 100 * float(np.mean(losses))}
    for folds, held_out in {"values": value_folds(rows), "sessions": session_folds(rows)}.items():
        losses = []
        for held in held_out:
            learn, asked = rows.where(~held), rows.where(held)
            models = estimator(learn, {s: ladders[s] for s in learn.scenes() if s in ladders})
            asked = asked.where(np.isin(scene_of(asked.points), [scene.value for scene in models]))
            if len(asked):
                losses.append(_expected_loss(asked, answers(models, asked.points, SceneModel.expected_ms)))
        if losses:
            expected[folds] = 100 * float(np.mean(losses))
    return Candidate(name, expected, _bound_losses(left), left=left)


def _folds(left: LeftOut) -> list[LeftOut]:
    return [left.where(left.fold == fold) for fold in np.unique(left.fold)]


def _expected_loss(asked: Rows, expected_ms: Millis) -> float:
    """Pinball at 0.5 of the relative error against point medians. expected_ms: of each row."""
    medians = point_medians(asked)
    _, first = np.unique(asked.point_id, return_index=True)
    return pinball((medians.latency_ms - expected_ms[first]) / medians.latency_ms, 0.5)


def _tried(name: str, estimator: Estimator, rows: Rows, ladders: Mapping[Scene, Ladder]) -> Candidate:
    try:
        return scored(name, estimator, rows, ladders)
    except ModuleNotFoundError as error:
        return Candidate(name, {}, {}, f"{error.name} is not installed: pip install 'chunkfit[fit]'")
    except ChunkfitError as error:
        return Candidate(name, {}, {}, str(error))


def _bound_losses(left: LeftOut) -> dict[str, float]:
    """Pinball at 0.99 of E + m scale in percent by scale, m from the rows of the other folds."""
    if left.between.any():
        left = left.where(left.between)
    losses = {}
    for kind in SCALES:
        if kind == "tail" and left.rows.point_count < TAIL_POINTS:
            continue
        scale = left_out_scale(kind, left)
        scores = (left.rows.latency_ms - left.expected_ms) / scale
        off = np.empty(len(scores))
        for fold in np.unique(left.fold):
            here = left.fold == fold
            multiplier = np.quantile(scores[~here], 0.99) if not here.all() else 0.0
            off[here] = (scores[here] - multiplier) * scale[here] / left.rows.latency_ms[here]
        losses[kind] = 100 * pinball(off, 0.99)
    return losses


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
