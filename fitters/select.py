"""Which estimator and which shape of the noise: chosen by cross-validation within the fit session.

Every candidate is fitted without a fold and predicts it (cross_validation.py). Its score is the pinball loss at 0.5 of
the relative error against point medians, mean over point, value and session folds. A candidate within TIE of the best
and simpler than it wins: the registry is ordered by simplicity. The winner's noise scale is chosen by its own loss
(noise.py). Scored are the estimators before node residuals and ordering, which are the same for all: no table is built
for a fold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..files.errors import ChunkfitError, FitError
from ..tables.batch import Scene
from ..tables.grid import Ladder
from .cross_validation import MOST_HELD_OUT_POINTS, OutOfFold, out_of_fold, predictions, session_folds, value_folds
from .estimators.estimator import Estimator, Millis, SceneModel
from .metrics import pinball
from .noise import NoiseScale, choose_noise
from .rows import Rows, at_most, point_medians

TIE = 0.02  # relative difference of two losses below which the simpler wins


@dataclass(frozen=True, slots=True)
class Candidate:
    """Held-out losses of one estimator in percent; reason: why there are none.

    expected: by kind of fold, `points`, `values` and, where there are several, `sessions`, pinball at 0.5. bound: by
    shape of the noise, pinball at 0.99. predicted: its out-of-fold predictions, from which `noise` was fitted.
    """

    name: str
    expected: Mapping[str, float]
    bound: Mapping[str, float]
    reason: str | None = None
    predicted: OutOfFold | None = None
    noise: NoiseScale | None = None

    @property
    def loss(self) -> float:
        """What candidates are ranked by."""
        return float(np.mean(list(self.expected.values()))) if self.expected else float("inf")

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
    """The chosen candidate with its fitted noise scale, all candidates, and the reason in words."""

    winner: Candidate
    noise: NoiseScale
    candidates: tuple[Candidate, ...]
    why: str


def select(estimators: Mapping[str, Estimator], rows: Rows, ladders: Mapping[Scene, Ladder]) -> Selection:
    """The best of `estimators`, given in order of simplicity, on MOST_HELD_OUT_POINTS points at most.

    Raises FitError when none of them can be fitted; with one alone, its own error.
    """
    some = at_most(rows, MOST_HELD_OUT_POINTS)
    if len(estimators) == 1:
        ((name, only),) = estimators.items()
        winner = scored(name, only, some, ladders)
        candidates: tuple[Candidate, ...] = (winner,)
        why = f"{name} was asked for"
    else:
        candidates = tuple(_tried(name, candidate, some, ladders) for name, candidate in estimators.items())
        able = [candidate for candidate in candidates if candidate.reason is None]
        if not able:
            raise FitError("no fitter can fit these rows: " + "; ".join(f"{c.name}: {c.reason}" for c in candidates))
        best = min(able, key=lambda candidate: candidate.loss)
        winner = next(candidate for candidate in able if candidate.loss * (1 - TIE) <= best.loss)
        why = _why(winner, best, able)
    assert winner.noise is not None  # only a candidate with a reason has none
    return Selection(winner, winner.noise, candidates, why)


def scored(name: str, estimator: Estimator, rows: Rows, ladders: Mapping[Scene, Ladder]) -> Candidate:
    """The candidate with its losses. Raises what the estimator raises."""
    predicted = out_of_fold(estimator, rows, ladders)
    folds = [predicted.where(predicted.fold == fold) for fold in np.unique(predicted.fold)]
    expected = {"points": 100 * float(np.mean([_expected_loss(fold.rows, fold.expected_ms) for fold in folds]))}
    for kind, masks in {"values": value_folds(rows), "sessions": session_folds(rows)}.items():
        losses = []
        for held in masks:
            known, held_rows = rows.where(~held), rows.where(held)
            models = estimator(known, {s: ladders[s] for s in known.scenes() if s in ladders})
            held_rows = held_rows.where(held_rows.mask_of(models))
            if len(held_rows):
                losses.append(_expected_loss(held_rows, predictions(models, held_rows.points, SceneModel.expected_ms)))
        if losses:
            expected[kind] = 100 * float(np.mean(losses))
    noise, bound = choose_noise(predicted.inside())
    return Candidate(name, expected, bound, predicted=predicted, noise=noise)


def _expected_loss(held_rows: Rows, expected_ms: Millis) -> float:
    """Pinball at 0.5 of the relative error against point medians. expected_ms: of each row."""
    medians = point_medians(held_rows)
    _, first = np.unique(held_rows.point_id, return_index=True)
    return pinball((medians.latency_ms - expected_ms[first]) / medians.latency_ms, 0.5)


def _tried(name: str, estimator: Estimator, rows: Rows, ladders: Mapping[Scene, Ladder]) -> Candidate:
    try:
        return scored(name, estimator, rows, ladders)
    except ModuleNotFoundError as error:
        return Candidate(name, {}, {}, f"{error.name} is not installed: pip install 'chunkfit[fit]'")
    except ChunkfitError as error:
        return Candidate(name, {}, {}, str(error))


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
