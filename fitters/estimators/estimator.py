"""What every estimator gives: the median and the tail of each scene, as curves over points (n, k, c, u)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ...tables.batch import Scene
from ...tables.grid import Ladder, Points
from ..rows import Rows

Millis = NDArray[np.float64]


class Curve(Protocol):
    """One function of a scene. What is not non-decreasing is closed in the table, at a cost (see gap.py)."""

    def total_ms(self, points: Points) -> Millis:
        """Time of each point, shape (points,)."""
        ...


@runtime_checkable
class SplitCurve(Curve, Protocol):
    """A curve that is ladder(n + c) + base(n, k, c, u) already, as the table is."""

    def ladder_ms(self, batch_tokens: NDArray[np.int64]) -> Millis:
        """The part that depends on n + c alone; shape as the argument."""
        ...

    def base_ms(self, points: Points) -> Millis:
        """The rest, shape (points,)."""
        ...


@runtime_checkable
class DoubtfulCurve(Curve, Protocol):
    """A curve that can tell where the data leaves more than one answer."""

    def doubt(self, points: Points) -> NDArray[np.float64]:
        """How far other answers that the data allows lie from this one, relative to the time, shape (points,)."""
        ...


@dataclass(frozen=True, slots=True)
class Lift:
    """A tail that is an affine function of the median: constant_ms >= 0, factor >= 0."""

    constant_ms: float
    factor: float


@dataclass(frozen=True, slots=True)
class SceneModel:
    """Median and tail of one scene, and the coefficients to show."""

    expected: Curve
    tail: SplitCurve | Lift
    coefficients: Mapping[str, float]

    def expected_ms(self, points: Points) -> Millis:
        """The median's time of each point, shape (points,)."""
        return self.expected.total_ms(points)

    def tail_ms(self, points: Points) -> Millis:
        """The tail's time of each point, shape (points,)."""
        if isinstance(self.tail, Lift):
            return self.tail.constant_ms + self.tail.factor * self.expected_ms(points)
        return self.tail.total_ms(points)

    def doubt(self, points: Points) -> NDArray[np.float64]:
        """Relative doubt about the median of each point, (points,); 0 where the curve knows of none."""
        if isinstance(self.expected, DoubtfulCurve):
            return self.expected.doubt(points)
        return np.zeros(len(points))


class Estimator(Protocol):
    """Fits every scene of `ladders`, whose knots say where the table will read n + c (steps are neighbours).

    Raises FitError when it cannot fit these rows, with the reason.
    """

    def __call__(self, rows: Rows, ladders: Mapping[Scene, Ladder]) -> dict[Scene, SceneModel]: ...
