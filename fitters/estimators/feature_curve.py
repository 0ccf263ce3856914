"""A linear model of the seven features as ladder + base."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...tables.batch import Scene
from ...tables.grid import Points, batch_totals
from .estimator import Millis
from .features import FEATURES, features

N, C = FEATURES.index("decodes"), FEATURES.index("chunk_tokens")


@dataclass(frozen=True, slots=True)
class FeatureCurve:
    """ladder(n + c) + weights . features, all non-decreasing; the slope that decodes and chunk tokens share
    is read as the ladder's."""

    scene: Scene
    knots: NDArray[np.float64]  # totals n + c
    knot_ms: NDArray[np.float64]
    weights: NDArray[np.float64]  # (7,) ms per unit

    @property
    def token_ms(self) -> float:
        """What one more row of every matrix product costs at least, beyond the ladder's own rise."""
        n, c = float(self.weights[N]), float(self.weights[C])
        return {Scene.DECODE: n, Scene.PREFILL: c, Scene.MIXED: min(n, c)}[self.scene]

    def ladder_ms(self, batch_tokens: NDArray[np.int64]) -> Millis:
        ms: Millis = np.interp(batch_tokens, self.knots, self.knot_ms) + self.token_ms * batch_tokens
        return ms

    def base_ms(self, points: Points) -> Millis:
        return np.maximum(features(points) @ self.weights - self.token_ms * batch_totals(points), 0.0)

    def total_ms(self, points: Points) -> Millis:
        return self.ladder_ms(batch_totals(points)) + self.base_ms(points)

    def named(self, prefix: str = "") -> dict[str, float]:
        """Coefficients to show: the seven features, and the ladder's ends (its knots are in the table)."""
        ends = {f"{prefix}ladder_first": float(self.knot_ms[0]), f"{prefix}ladder_last": float(self.knot_ms[-1])}
        return ends | {f"{prefix}{name}": float(w) for name, w in zip(FEATURES, self.weights, strict=True)}
