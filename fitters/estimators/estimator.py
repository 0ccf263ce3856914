"""The protocol of estimators: each gives the median time of every scene as a curve over points (n, k, c, u)."""

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
    """The time of a scene as a function of points. The table orders a curve that falls, at a cost (certify.py)."""

    def total_ms(self, points: Points) -> Millis:
        """Time of each point, shape (points,)."""
        ...


@runtime_checkable
class SplitCurve(Curve, Protocol):
    """A curve of the table's own form, ladder(n + c) + base(n, k, c, u)."""

    def ladder_ms(self, batch_tokens: NDArray[np.int64]) -> Millis:
        """The part that depends on n + c alone; shape as the argument."""
        ...

    def base_ms(self, points: Points) -> Millis:
        """The rest, shape (points,)."""
        ...


@runtime_checkable
class UncertainCurve(Curve, Protocol):
    """A curve that estimates its own model uncertainty."""

    def uncertainty(self, points: Points) -> NDArray[np.float64]:
        """Half the spread of the answers that the data allows, relative to the time, shape (points,)."""
        ...


@dataclass(frozen=True, slots=True)
class SceneModel:
    """The fitted median of one scene.

    Attributes:
        expected: the median's curve.
        coefficients: what the model is made of, by name, to be shown and stored in the table.
    """

    expected: Curve
    coefficients: Mapping[str, float]

    def expected_ms(self, points: Points) -> Millis:
        """Median time of each point.

        Args:
            points: n, k, c, u in tokens, shape (points, 4).

        Returns:
            Milliseconds, shape (points,).
        """
        return self.expected.total_ms(points)

    def uncertainty(self, points: Points) -> NDArray[np.float64]:
        """The curve's own uncertainty about the median.

        Args:
            points: n, k, c, u in tokens, shape (points, 4).

        Returns:
            Relative to the time, shape (points,); 0 where the curve estimates none.
        """
        if isinstance(self.expected, UncertainCurve):
            return self.expected.uncertainty(points)
        return np.zeros(len(points))


class Estimator(Protocol):
    """Fits the median of an iteration's time in every scene."""

    def __call__(self, rows: Rows, ladders: Mapping[Scene, Ladder]) -> dict[Scene, SceneModel]:
        """Fit all scenes of `ladders` to `rows`.

        Args:
            rows: the rows to fit, of any scenes.
            ladders: the totals n + c at which the table of each scene has knots; two neighbouring totals are the sides
                of a known step.

        Returns:
            A model for each scene of `ladders`.

        Raises:
            FitError: the rows cannot be fitted; the message says why.
        """
        ...
