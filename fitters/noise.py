"""Noise scale: how wide the error of a table is at a batch, up to one factor that calibration finds.

The bound is expected time + multiplier x scale. Two shapes compete. `Proportional`: the scale is the expected time.
`LocalNoise`: expected time x a difficulty estimate, read from the out-of-fold errors of the nearest points. The shape
with the smaller pinball loss at 0.99 out of fold is taken, ties to the simpler: a wrong shape only inflates the bound.

Errors are out of fold, since an interpolating model has no in-sample error. They are too small inside wide gaps, where
held-out points have near neighbours, so they are counted in units of the estimator's own uncertainty (estimator.py).
A third shape, a fitted 0.99 tail, was never chosen: docs/decisions/noise-shapes.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from ..files.errors import FitError
from ..tables.grid import Points
from .cross_validation import OutOfFold
from .estimators.estimator import Millis, SceneModel
from .isotonic_projection import isotonic_projection
from .metrics import pinball
from .numerics import without_self

QUANTILE = 0.99  # that shapes are scored at: the coverage that bounds usually promise
TIE = 0.02  # relative difference of two losses below which the simpler wins
NEIGHBOUR_QUANTILE = 0.9  # of the neighbours' errors: a margin is about the large ones
NEIGHBOURS = 100
PRIOR_NEIGHBOURS = 20  # weight, in neighbours, of the quantile over all points
SMALLEST_ERROR = 1e-3  # of the time: measured times agree no better
# Of the time, what an estimator's uncertainty is added to. From 0.05 to 0.3 no bound on public data changes by 1%.
LEAST_UNCERTAINTY = 0.1

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ExpectedNodes:
    """The ordered expected time of one scene at its nodes.

    points: (nodes, 4). ladder_ms: (knots,). base_ms, node_ladder_ms (the ladder's share at each base node), measured:
    shape of the base.
    """

    points: Points
    ladder_ms: Millis
    base_ms: Millis
    node_ladder_ms: Millis
    measured: NDArray[np.bool_]


class NoiseScale(Protocol):
    """One shape of the noise, fitted.

    Attributes:
        name: as a table's document stores it.
    """

    name: ClassVar[str]

    @classmethod
    def fit(cls, errors: OutOfFold) -> Self:
        """The shape fitted to out-of-fold predictions."""
        ...

    def at_rows(self, errors: OutOfFold) -> Millis:
        """Scale of each row that it was fitted to, from the errors of other points alone.

        Args:
            errors: the predictions given to `fit`.

        Returns:
            Milliseconds, shape (rows,).
        """
        ...

    def at_nodes(self, nodes: ExpectedNodes, model: SceneModel) -> tuple[Millis, Millis]:
        """Scale of a scene's ladder (knots,) and base (shape of the base), in ms; both parts are of one sum."""
        ...


@dataclass(frozen=True, slots=True)
class Proportional:
    """The scale is the expected time."""

    name: ClassVar[str] = "proportional"

    @classmethod
    def fit(cls, errors: OutOfFold) -> Self:
        """Nothing is fitted."""
        return cls()

    def at_rows(self, errors: OutOfFold) -> Millis:
        """See `NoiseScale`."""
        return errors.expected_ms

    def at_nodes(self, nodes: ExpectedNodes, model: SceneModel) -> tuple[Millis, Millis]:
        """See `NoiseScale`."""
        return nodes.ladder_ms, nodes.base_ms


@dataclass(frozen=True, slots=True)
class LocalNoise:
    """Expected time x difficulty: the 0.9 quantile of the errors of the 100 nearest points in log2(1 + x).

    It is shrunk towards the quantile over all points, as by 20 more neighbours. errors: (points,), mean |T / E - 1|
    over the rows of each point, divided by LEAST_UNCERTAINTY + the estimator's uncertainty there. usual_multiplier:
    of about 0.99 coverage, 1 at least; calibration finds the promised one.
    """

    name: ClassVar[str] = "local"
    tree: cKDTree
    errors: Floats
    usual_multiplier: float

    @classmethod
    def fit(cls, errors: OutOfFold) -> Self:
        """The errors of each point of `errors`, and where it lies."""
        first, inverse, uncertainty = _by_point(errors)
        off = errors.rows.latency_ms / errors.expected_ms - 1.0
        size = np.bincount(inverse, weights=np.abs(off)) / np.bincount(inverse)
        counted = np.maximum(size, SMALLEST_ERROR) / (LEAST_UNCERTAINTY + uncertainty)
        noise = cls(cKDTree(np.log2(1.0 + errors.rows.points[first])), counted, 1.0)
        difficulty = noise._without_own(uncertainty)[inverse]
        usual = float(np.quantile(off / difficulty, QUANTILE))
        return replace(noise, usual_multiplier=max(usual, 1.0))

    def at_rows(self, errors: OutOfFold) -> Millis:
        """See `NoiseScale`."""
        _, inverse, uncertainty = _by_point(errors)
        return errors.expected_ms * self._without_own(uncertainty)[inverse]

    def at_nodes(self, nodes: ExpectedNodes, model: SceneModel) -> tuple[Millis, Millis]:
        """See `NoiseScale`. The base's scale keeps the bound of the usual multiplier in order.

        Left to the bound's closure it would only be raised: all larger batches would pay for a noisy region.
        """
        difficulty = self.at(nodes.points, model.uncertainty(nodes.points)).reshape(nodes.base_ms.shape)
        ladder, base = split_scale(difficulty, nodes)
        multiplier = self.usual_multiplier
        offset = float(np.median(nodes.ladder_ms + multiplier * ladder))
        bound_ms = isotonic_projection(nodes.base_ms + multiplier * base, nodes.measured, offset)
        return ladder, np.maximum(bound_ms - nodes.base_ms, 0.0) / multiplier

    def at(self, points: Points, uncertainty: Floats) -> Floats:
        """Difficulty, relative to the time, of each point, (points,). uncertainty: the estimator's, of each."""
        return (LEAST_UNCERTAINTY + uncertainty) * self._read(self._nearest(np.log2(1.0 + points), NEIGHBOURS))

    def _without_own(self, uncertainty: Floats) -> Floats:
        """Difficulty at each fitted point, from the other points' errors alone."""
        nearest = without_self(self._nearest(self.tree.data, NEIGHBOURS + 1))
        return (LEAST_UNCERTAINTY + uncertainty) * self._read(nearest)

    def _nearest(self, places: Floats, count: int) -> NDArray[np.int64]:
        count = min(count, len(self.errors))
        _, nearest = self.tree.query(places, k=count)
        return np.asarray(nearest, dtype=np.int64).reshape(len(places), count)

    def _read(self, nearest: NDArray[np.int64]) -> Floats:
        overall = np.quantile(self.errors, NEIGHBOUR_QUANTILE)
        count = nearest.shape[1]
        if not count:  # one point alone has no neighbours
            return np.full(len(nearest), overall)
        here = np.quantile(self.errors[nearest], NEIGHBOUR_QUANTILE, axis=1)
        return np.asarray((count * here + PRIOR_NEIGHBOURS * overall) / (count + PRIOR_NEIGHBOURS))


SHAPES: tuple[type[NoiseScale], ...] = (Proportional, LocalNoise)  # the simpler first


def choose_noise(errors: OutOfFold) -> tuple[NoiseScale, Mapping[str, float]]:
    """The best shape, and the loss of each in percent: pinball at 0.99 of T - (E + multiplier x scale), relative.

    errors: without rows that a fold extrapolated to (`OutOfFold.inside`). The multiplier of a fold is that of the
    other folds' rows.
    """
    fitted = [shape.fit(errors) for shape in SHAPES]
    losses = {noise.name: _bound_loss(errors, noise.at_rows(errors)) for noise in fitted}
    best = min(losses.values())
    return next(noise for noise in fitted if losses[noise.name] * (1 - TIE) <= best), losses


def refitted(name: str, errors: Callable[[], OutOfFold]) -> NoiseScale:
    """The shape that a document names. errors: called only where the shape is fitted to errors. Raises FitError."""
    if name == Proportional.name:
        return Proportional()
    if name == LocalNoise.name:
        return LocalNoise.fit(errors().inside())
    known = ", ".join(shape.name for shape in SHAPES)
    raise FitError(f"noise scale {name!r} is unknown; expected one of {known}: fit the table with this version")


def split_scale(difficulty: Floats, nodes: ExpectedNodes) -> tuple[Millis, Millis]:
    """Scales of ladder and base that add up to difficulty x (ladder + base) at every node.

    difficulty: shape of the base. The ladder has the share that all nodes have in common.
    """
    least = float(difficulty.min())
    return least * nodes.ladder_ms, difficulty * nodes.base_ms + (difficulty - least) * nodes.node_ladder_ms


def _by_point(errors: OutOfFold) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """First row of each point (points,), point of each row (rows,), uncertainty of each point (points,)."""
    _, first, inverse = np.unique(errors.rows.point_id, return_index=True, return_inverse=True)
    return first, inverse, errors.uncertainty[first]


def _bound_loss(errors: OutOfFold, scale: Millis) -> float:
    scores = (errors.rows.latency_ms - errors.expected_ms) / scale
    off = np.empty(len(scores))
    for fold in np.unique(errors.fold):
        here = errors.fold == fold
        multiplier = np.quantile(scores[~here], QUANTILE) if not here.all() else 0.0
        off[here] = (scores[here] - multiplier) * scale[here] / errors.rows.latency_ms[here]
    return 100 * pinball(off, QUANTILE)
