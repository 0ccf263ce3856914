"""One method on one split: what it says of the rows that were held out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from chunkfit.files.errors import CertificationError
from chunkfit.fitters.build import build_chosen, ladders_of, with_found_steps
from chunkfit.fitters.cross_validation import OutOfFold, in_box, point_folds
from chunkfit.fitters.estimators.estimator import Estimator
from chunkfit.fitters.estimators.registry import AUTO
from chunkfit.fitters.margin import NoiseMargin, best_coverage, noise_margins, points_needed
from chunkfit.fitters.noise import NoiseScale
from chunkfit.fitters.select import select
from chunkfit.tables.grid import scene_of

from .peers import Peer
from .sets import DataSet
from .steps import falls

Floats = NDArray[np.float64]
COVERAGE, CONFIDENCE = 0.99, 0.95
FACTOR = 1.2  # QoServe's constant, given to every peer


@dataclass(frozen=True, slots=True)
class Prediction:
    """Of the held-out rows, all (rows,): measured, expected, bounds by name.

    falls: axis -> (falling, asked) steps of the first bound. unclosed_*: None for peers, which close nothing.
    note: what the method says of itself.
    """

    latency_ms: Floats
    expected_ms: Floats
    bounds_ms: Mapping[str, Floats]
    falls: Mapping[str, tuple[int, int]]
    unclosed_expected_ms: Floats | None = None
    unclosed_bound_ms: Floats | None = None
    note: str = ""


def peer_prediction(peer: Peer, data: DataSet, held: NDArray[np.bool_], seed: int) -> Prediction | None:
    """Two bounds: x1.2, and a margin per scene from held-out points (plain split conformal). None: no answer."""
    learn, asked = data.rows.where(~held), data.rows.where(held)
    predict = peer(learn)
    expected = predict(asked.points)
    if not np.isfinite(expected).all():
        return None
    scores = np.full(len(learn), np.nan)
    for fold in point_folds(learn):
        known = learn.where(~fold)
        here = fold & in_box(known, learn.points)
        scores[here] = learn.latency_ms[here] / peer(known)(learn.points[here])
    mine, names = scene_of(learn.points), scene_of(asked.points)
    factors = np.ones(len(asked))
    for scene in asked.scenes():
        factors[names == scene.value] = _conformal(scores, mine == scene.value)
    bounds = {"x1.2": FACTOR * expected, "margin": factors * expected}
    return Prediction(asked.latency_ms, expected, bounds, falls(predict, data.rows, seed))


def _conformal(scores: Floats, here: NDArray[np.bool_]) -> float:
    """The ceil((m + 1) 0.99)-th smallest, the largest where there are too few; of all scenes where none is here."""
    mine = scores[here & np.isfinite(scores)]
    if not len(mine):
        mine = scores[np.isfinite(scores)]
    return float(np.sort(mine)[min(int(np.ceil((len(mine) + 1) * COVERAGE)), len(mine)) - 1])


def our_predictions(
    fitters: Mapping[str, Estimator], data: DataSet, held: NDArray[np.bool_], seed: int
) -> dict[str, Prediction | str]:
    """Every fitter's closed table, and under AUTO that of the one which selection takes; a text: why there is none.

    As `fit` does it: steps are found, candidates are scored and the noise's shape is chosen inside the rows to learn
    from. A table is built once, through all of them; its margin is of held-out points of theirs, scored by the
    estimator before node residuals and closure.
    """
    learn, asked = data.rows.where(~held), data.rows.where(held)
    steps, _ = with_found_steps(learn, data.domain, ())
    selection = select(fitters, learn, ladders_of(learn, data.domain, steps))
    found: dict[str, Prediction | str] = {}
    for candidate in selection.candidates:
        if candidate.reason is not None:
            found[candidate.name] = candidate.reason
            continue
        estimator = fitters[candidate.name]
        noise, errors = candidate.noise, candidate.predicted
        assert noise is not None
        assert errors is not None
        built = build_chosen(learn, data.domain, steps, estimator, noise)
        margins, note = _margins(noise, errors.inside())
        unclosed = built.unclosed({scene: m.multiplier for m in margins for scene in m.scenes}, 1.0)
        arrays = built.closed(unclosed)
        expected, bound = arrays.read(asked.points)
        raw_expected, raw_bound = built.raw(unclosed).read(asked.points)
        steps_down = falls(lambda points, arrays=arrays: arrays.read(points)[1], data.rows, seed)
        found[candidate.name] = Prediction(
            asked.latency_ms, expected, {"margin": bound}, steps_down, raw_expected, raw_bound, note
        )
    winner = found[selection.winner.name]
    assert isinstance(winner, Prediction)
    return {AUTO: replace(winner, note=f"{selection.why}; {winner.note}"), **found}


def _margins(noise: NoiseScale, errors: OutOfFold) -> tuple[list[NoiseMargin], str]:
    """Certified margins; where points are too few, at the level that they can certify: what `fit` advises then."""
    scores, names = _scores(noise, errors)
    try:
        return noise_margins(scores, names, COVERAGE, CONFIDENCE), f"certified {COVERAGE} on m = {len(scores)}"
    except CertificationError:
        level = best_coverage(len(scores), CONFIDENCE)
        refused = f"refused: m = {len(scores)}, needs {points_needed(COVERAGE, CONFIDENCE)}; certifies {level:g}"
        return noise_margins(scores, names, level, CONFIDENCE), refused


def _scores(noise: NoiseScale, errors: OutOfFold) -> tuple[Floats, NDArray[np.str_]]:
    """(T - E) / scale of one row per point, E from an estimator that has not seen the point.

    What a fold would have to extrapolate to sets no margin, neither of ours nor of a peer.
    """
    scores = (errors.rows.latency_ms - errors.expected_ms) / noise.at_rows(errors)
    _, first = np.unique(errors.rows.point_id, return_index=True)
    return scores[first], scene_of(errors.rows.points[first])
