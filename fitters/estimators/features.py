"""What an iteration costs, as columns for linear models, and the linear model of the seven features as a curve.

`features`: the seven of SlidingServe (its Table 1). `trend_features`: 101 columns that never fall as a batch gains
work; non-negative weights of them extrapolate. They hold lines past the last hinge, tiles, the floor of streaming
weights (a constant that a hinge leaves), attention, and what scenes add to each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...tables.batch import Scene
from ...tables.grid import Points, batch_totals
from .estimator import Millis

Floats = NDArray[np.float64]

FEATURES = (
    "chunk_attention",  # x1 = c (u + c): every chunk token reads prefix and chunk
    "chunk_self_attention",  # x2 = c^2
    "computed_tokens",  # x3 = u + n k: tokens already in the KV cache, over the whole batch
    "decodes",  # x4 = n
    "decode_context",  # x5 = n k: KV tokens the decodes read
    "chunk_tokens",  # x6 = c
    "largest_chunk",  # x7 = max c_i; the sweep's batches have one chunk, so it equals x6 there
)
DECODES_FEATURE, CHUNK_FEATURE = FEATURES.index("decodes"), FEATURES.index("chunk_tokens")

# Hinges: where a line may bend, in tokens: powers of two, and halfway between them where matrix tiles and ridges lie.
TOTAL_HINGES = (4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192)
STEP_TOTALS = (128, 256, 512, 1024, 2048)
TILE_TOKENS = (16, 64, 128, 256)
DECODE_HINGES = (4, 16, 32, 64, 128, 256)
CHUNK_HINGES = (16, 64, 256, 512, 1024, 2048, 4096)
CONTEXT_HINGES = tuple(2**power for power in range(10, 22, 2))
PREFIX_HINGES = (256, 1024, 4096, 16384)
PAIR_HINGES = (10**4, 10**5, 10**6, 10**7, 10**8)


def features(points: Points) -> NDArray[np.float64]:
    """Shape (points, 7), columns as FEATURES, for points (n, k, c, u).

    The paper takes c_i <= 1 for a decode; here the phase decides, since a last chunk may be one token.
    """
    n, k, c, u = (points[:, i].astype(np.float64) for i in range(4))
    return np.column_stack([c * (u + c), c * c, u + n * k, n, n * k, c, c])


def trend_features(points: Points) -> Floats:
    """Shape (points, 101), all columns >= 0 and non-decreasing in each of n, k, c, u."""
    n, k, c, u = points.T.astype(np.float64)
    total, read, pairs = n + c, n * k, c * (u + c / 2)
    decoding, filling = (n > 0).astype(np.float64), (c > 0).astype(np.float64)
    columns = [np.ones(len(points)), decoding, filling, decoding * filling]
    columns += [n, c, k, u, read, read + u, pairs, c * u, c * c, c * (u + c)]
    columns += [filling * n, decoding * c, filling * read, decoding * pairs, n * c]
    columns += [np.sqrt(x) for x in (n, c, read, pairs)]
    columns += [(total > step).astype(np.float64) for step in STEP_TOTALS]
    columns += [np.ceil(total / tile) * tile for tile in TILE_TOKENS]
    columns += [np.ceil(c / 128) * 128 * (u + c), np.ceil(n / 8) * 8]
    for x, hinges, levels in (
        (total, TOTAL_HINGES, TOTAL_HINGES[::3]),
        (n, DECODE_HINGES, DECODE_HINGES[::2]),
        (c, CHUNK_HINGES, CHUNK_HINGES[::2]),
        (read, CONTEXT_HINGES, CONTEXT_HINGES[::2]),
        (u, PREFIX_HINGES, PREFIX_HINGES[::2]),
        (pairs, PAIR_HINGES, PAIR_HINGES[::2]),
    ):
        columns += [np.maximum(x - hinge, 0.0) for hinge in hinges]
        columns += [np.minimum(x, level) for level in levels]
    return np.column_stack(columns)


def few_trend_features(points: Points) -> Floats:
    """Shape (points, 10), never falling either: a constant of the iteration and of each phase, and the seven."""
    decoding, filling = ((points[:, axis] > 0).astype(np.float64) for axis in (0, 2))
    return np.column_stack([np.ones(len(points)), decoding, filling, features(points)])


@dataclass(frozen=True, slots=True)
class FeatureCurve:
    """ladder(n + c) + weights . features, all non-decreasing.

    The slope that decodes and chunk tokens share counts as the ladder's.
    """

    scene: Scene
    knots: NDArray[np.float64]  # totals n + c
    knot_ms: NDArray[np.float64]
    weights: NDArray[np.float64]  # (7,) ms per unit

    @property
    def token_ms(self) -> float:
        """What one more row of every matrix product costs at least, beyond the ladder's own rise."""
        n, c = float(self.weights[DECODES_FEATURE]), float(self.weights[CHUNK_FEATURE])
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
