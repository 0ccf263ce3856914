"""`roofline`: an iteration from its operators, each measured alone by `chunkfit microbench`.

    T = overhead + a ceiling(n + c) + b layer(n + c) + d decode_attention(n, k) + e chunk_attention(c, u)

ceiling: what copy bandwidth and matrix rate allow a layer's weights and products, max(bytes / bandwidth, flops /
rate). layer: the measured token-parallel part of a layer. The attentions are their measured times, read through the
work they follow. The coefficients (layers, and an engine's overhead on each) are >= 0, by least squares of the relative
error with Huber weights, one set over all scenes. It is the physics beside the other fitters: five numbers, and no
shape but the machine's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...files.errors import FitError
from ...profiler.microbench.results import MicrobenchV1, OperatorRowV1
from ...tables.batch import AXES, Scene
from ...tables.grid import Ladder, Points, batch_totals
from ..isotonic_projection import monotone
from ..numerics import non_negative, robust_nnls, unit_columns
from ..rows import Rows
from .estimator import Millis, SceneModel

TERMS = ("overhead", "ceiling", "layer", "decode_attention", "chunk_attention")
MS_PER_S = 1e3

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Operators:
    """The microbenchmarks as curves. tokens: increasing. ceiling_ms, layer_ms: non-decreasing, one a token count.

    decode_ms: weights of 1, n, n k. chunk_ms: weights of 1, c, u, c (u + c / 2).
    """

    tokens: Floats
    ceiling_ms: Floats
    layer_ms: Floats
    decode_ms: Floats
    chunk_ms: Floats

    def columns(self, points: Points) -> Floats:
        """Shape (points, 5): TERMS, in ms."""
        totals, n, c = batch_totals(points), points[:, 0], points[:, 2]
        return np.column_stack(
            [
                np.ones(len(points)),
                _read(totals, self.tokens, self.ceiling_ms),
                _read(totals, self.tokens, self.layer_ms),
                np.where(n > 0, _decode_work(points) @ self.decode_ms, 0.0),
                np.where(c > 0, _chunk_work(points) @ self.chunk_ms, 0.0),
            ]
        )


@dataclass(frozen=True, slots=True)
class RooflineCurve:
    operators: Operators
    weights: Floats

    def ladder_ms(self, batch_tokens: NDArray[np.int64]) -> Millis:
        tokens, at = self.operators.tokens, self.operators
        ceiling, layer = (_read(batch_tokens, tokens, ms) for ms in (at.ceiling_ms, at.layer_ms))
        return np.asarray(self.weights[0] + self.weights[1] * ceiling + self.weights[2] * layer)

    def base_ms(self, points: Points) -> Millis:
        return np.asarray(self.operators.columns(points)[:, 3:] @ self.weights[3:])

    def total_ms(self, points: Points) -> Millis:
        return np.asarray(self.operators.columns(points) @ self.weights)


@dataclass(frozen=True, slots=True)
class Roofline:
    """The estimator over microbenchmarks: `results` is what it needs beside rows; without them it only raises."""

    results: MicrobenchV1 | None = None

    def __call__(self, rows: Rows, ladders: Mapping[Scene, Ladder]) -> dict[Scene, SceneModel]:
        """See `Estimator`. Raises FitError without results, and where they lack an operator."""
        if self.results is None:
            raise FitError(
                "fitter roofline needs the operators' times: give --microbench FILE, as `chunkfit microbench` writes it"
            )
        operators = operators_of(self.results)
        relative, scale = unit_columns(operators.columns(rows.points) / rows.latency_ms[:, None])
        curve = RooflineCurve(operators, robust_nnls(relative) / scale)
        shown = dict(zip(TERMS, curve.weights.tolist(), strict=True))
        return {scene: SceneModel(curve, shown) for scene in ladders}


def operators_of(results: MicrobenchV1) -> Operators:
    """The curves of a results file. Raises FitError naming the operator that has too few sizes."""
    layer = sorted(_rows(results, "token_parallel", 2), key=lambda row: row.sizes["tokens"])
    limits = results.ceilings
    allowed = [
        MS_PER_S * max(row.bytes_moved / limits.copy_bytes_per_s, row.flops / limits.flops_per_s) for row in layer
    ]
    measured = np.asarray([row.p50_ms for row in layer])
    decodes, chunks = _rows(results, "decode_attention", 1), _rows(results, "chunk_attention", 1)
    return Operators(
        np.asarray([row.sizes["tokens"] for row in layer], dtype=np.float64),
        np.asarray(allowed),
        monotone(measured, np.ones(len(measured))),
        _weights(decodes, _decode_work(_points(decodes))),
        _weights(chunks, _chunk_work(_points(chunks))),
    )


def _rows(results: MicrobenchV1, name: str, least: int) -> list[OperatorRowV1]:
    rows = [row for row in results.rows if row.name == name]
    if len(rows) < least:
        raise FitError(
            f"fitter roofline: the microbenchmarks hold {len(rows)} sizes of {name}; expected at least {least}: "
            "run `chunkfit microbench` with more minutes"
        )
    return rows


def _points(rows: Sequence[OperatorRowV1]) -> Points:
    return np.asarray([[row.sizes.get(name, 0) for name in AXES] for row in rows], dtype=np.int64)


def _weights(rows: Sequence[OperatorRowV1], work: Floats) -> Floats:
    """Time of a call by its work, all >= 0, least relative error."""
    return non_negative(work / np.asarray([[row.p50_ms] for row in rows]), np.ones(len(rows)))


def _decode_work(points: Points) -> Floats:
    n, k = points[:, 0].astype(np.float64), points[:, 1]
    return np.column_stack([np.ones(len(points)), n, n * k])


def _chunk_work(points: Points) -> Floats:
    c, u = points[:, 2].astype(np.float64), points[:, 3]
    return np.column_stack([np.ones(len(points)), c, u, c * (u + c / 2)])


def _read(totals: NDArray[np.int64], tokens: Floats, ms: Floats) -> Floats:
    """Linear between token counts; past the last in proportion, as arithmetic is."""
    return np.asarray(np.interp(totals, tokens, ms) * np.maximum(totals / tokens[-1], 1.0))
