"""Rows of a device whose steps in n + c nobody announced."""

import numpy as np

from chunkfit.fitters.rows import Rows
from chunkfit.profiler.devices import truth
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.sampling import draw

PLANTED = (129, 257, 513)


def stepped_ms(points, steps=PLANTED, rise=0.08):
    """reference-v1 with other steps: a floor of 8 ms, a bend at 178 tokens, attention."""
    total = points[:, 0] + points[:, 2]
    ladder = np.maximum(8.0, 0.045 * total)
    attention = truth.base_ms(points) - ladder * np.where(total >= 129, 1.08, 1.0)
    return ladder * np.prod([np.where(total >= step, 1 + rise, 1.0) for step in steps or (10**9,)], axis=0) + attention


def stepped_rows(seed, steps=PLANTED, rise=0.08, points=1000, repeats=3) -> Rows:
    """Points of the law that knows no steps; a node effect of 0.5%, iterations of 1% and a tail."""
    drawn, rng = draw(SYNTHETIC_DOMAIN, points, (), seed).points, np.random.default_rng(seed)
    ids = np.repeat(np.arange(points), repeats)
    latency = (stepped_ms(drawn, steps, rise) * np.exp(0.005 * rng.standard_normal(points)))[ids]
    latency *= np.exp(0.01 * rng.standard_normal(len(ids)))
    latency *= np.where(rng.random(len(ids)) < 0.02, 1 + rng.exponential(0.08, len(ids)), 1.0)
    return Rows(drawn[ids], latency, ids, np.zeros(len(ids), dtype=bool))
