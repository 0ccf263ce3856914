"""A table of a formula over the requests that an engine takes: long contexts, prompts of 64k tokens."""

from __future__ import annotations

import numpy as np

from chunkfit.tables.arrays import TableArrays
from chunkfit.tables.batch import SCENES, Scene
from chunkfit.tables.closure import monotone_majorant
from chunkfit.tables.cost_table import CostTable
from chunkfit.tables.domain import Domain
from chunkfit.tables.fingerprint import Fingerprint
from chunkfit.tables.grid import Axes, Ladder, Surface
from chunkfit.tables.lookup import TICKS_PER_MS
from chunkfit.tables.schema_v1 import CertificateV1
from support.random_tables import table_of

DOMAIN = Domain(
    max_decodes=96,
    max_context_tokens=70_000,
    max_chunk_tokens=8192,
    max_prefix_tokens=70_000,
    max_batch_tokens=8192,
    kv_tokens=4_000_000,
    context_length=70_000,
)
CERTIFICATE = CertificateV1(
    coverage=0.99, confidence=0.95, law="made up", points=299, rows=299, exceedances=0, allowed=0, scenes={}
)
CHUNKS = (1, 16, 64, 256, 512, 1024, 2048, 4096, 8192)
LADDER = Ladder((1, 120, 8192 + 96))


def ladder_ms(tokens: int) -> float:
    """An 8B model on a large card, roughly: 8 ms of weights, then 0.05 ms a token."""
    return 2.0 + max(6.0, 0.05 * tokens)


def base_ms(n: int, k: int, c: int, u: int) -> float:
    """1 ns a pair of tokens in a chunk's attention, 20 ns a token of a decode's context."""
    return n * (0.02 + 2e-5 * k) + (0.3 + 1e-6 * c * (u + c / 2) if c else 0.0)


def served_table(fingerprint: Fingerprint, domain: Domain = DOMAIN) -> CostTable:
    """bound: the formula at the knots; expected: 0.9 of it. Its certificate is as made up as the formula."""
    axes = Axes((1, domain.max_decodes), (1, domain.max_context_tokens), CHUNKS, tuple({0, domain.max_prefix_tokens}))

    def ticks(values: list[float], scale: float) -> np.ndarray:
        return np.rint(scale * TICKS_PER_MS * np.array(values)).astype(np.int64)

    def surface(scene: Scene, scale: float) -> Surface:
        ns, ks = (axes.decodes, axes.context_tokens) if scene is not Scene.PREFILL else ((0,), (0,))
        us, cs = (axes.prefix_tokens, axes.chunk_tokens) if scene is not Scene.DECODE else ((0,), (0,))
        grid = [base_ms(n, k, c, u) for n in ns for k in ks for u in us for c in cs]
        steps = [ladder_ms(tokens) for tokens in LADDER.batch_tokens]
        return Surface(ticks(steps, scale), ticks(grid, scale).reshape(axes.shape(scene)))

    ladders = dict.fromkeys(SCENES, LADDER)
    expected = {scene: surface(scene, 0.9) for scene in SCENES}
    bound = monotone_majorant(axes, ladders, expected, {scene: surface(scene, 1.0) for scene in SCENES})
    measured = {scene: np.ones(axes.shape(scene), bool) for scene in SCENES}
    arrays = TableArrays(axes, ladders, expected, bound, measured, domain)
    return table_of(arrays, fingerprint=fingerprint, certificate=CERTIFICATE)
