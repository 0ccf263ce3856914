"""What every estimator gives: a non-decreasing model of a scene as ladder(n + c) + base(n, k, c, u)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..tables.batch import Scene
from ..tables.grid import Ladder, Points
from .rows import Rows

Millis = NDArray[np.float64]


class Curve(Protocol):
    """One non-decreasing function of a scene, in two parts."""

    def ladder_ms(self, batch_tokens: NDArray[np.int64]) -> Millis:
        """The part that depends on n + c alone; shape as the argument."""
        ...

    def base_ms(self, points: Points) -> Millis:
        """The rest, shape (points,)."""
        ...


@dataclass(frozen=True, slots=True)
class SceneModel:
    """Median and tail of one scene, and the coefficients to show."""

    expected: Curve
    tail: Curve
    coefficients: Mapping[str, float]


class Estimator(Protocol):
    """Fits every scene of `ladders`, whose knots say where the table will read n + c (steps are neighbours)."""

    def __call__(self, rows: Rows, ladders: Mapping[Scene, Ladder]) -> dict[Scene, SceneModel]: ...


def total_ms(curve: Curve, points: Points) -> Millis:
    """ladder + base of each point."""
    return curve.ladder_ms(points[:, 0] + points[:, 2]) + curve.base_ms(points)
