"""Batches of equal totals (n, k, c, u) that are unlike each other, to be measured side by side.

A table reads decodes at their mean context and several chunks as one. What a batch takes beside the batch
it is read as is measured on the states drawn here, from the same law as everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle

import numpy as np

from ..engine.config import MOST_CHUNKS
from ..tables.batch import Batch, Scene
from ..tables.domain import Domain
from .sampling import AXES, Point, candidates, inside

# Longest over shortest context of the geometric spread.
SPREAD = 64.0
# Share of all KV tokens that the one long decode has, where the context length lets it.
LONG_SHARE = 0.75
# 2^4 candidates per pair or more: a state may hold too few tokens to spread, or have no room under the
# context length.
TRIES_BITS = 4


def unequal_contexts(domain: Domain, count: int, seed: np.random.SeedSequence) -> list[Batch]:
    """Up to `count` batches of decodes with unequal contexts, decode and mixed ones in turn.

    In turn they are spread geometrically (SPREAD), and one long beside many short.
    """
    found: list[Batch] = []
    states = _alternating(domain, (Scene.DECODE, Scene.MIXED), count, seed)
    geometric = cycle((True, True, False, False))
    for n, k, c, u in states:
        if len(found) == count:
            break
        if n < 2:
            continue
        if next(geometric):
            weights = [SPREAD ** (-i / (n - 1)) for i in range(n)]
        else:
            weights = [LONG_SHARE] + [(1 - LONG_SHARE) / (n - 1)] * (n - 1)
        contexts = apportion(n * k, weights, domain.context_length)
        if contexts is None:
            continue
        batch = Batch.with_chunks(contexts, [(c, u)] if c else [])
        if batch.longest_context > k and domain.refusal_of(batch) is None:
            found.append(batch)
    return found


def several_chunks(domain: Domain, count: int, seed: np.random.SeedSequence) -> list[Batch]:
    """Up to `count` batches of 2, 3 or 4 chunks, prefill and mixed ones in turn.

    Their tokens and prefixes are shared out at random, independently of each other.
    """
    found: list[Batch] = []
    state_seed, share_seed = seed.spawn(2)
    rng = np.random.default_rng(share_seed)
    states = _alternating(domain, (Scene.PREFILL, Scene.MIXED), count, state_seed)
    for n, k, c, u in states:
        if len(found) == count:
            break
        chunks = 2 + len(found) // 2 % (MOST_CHUNKS - 1)
        tokens = apportion(c, rng.dirichlet(np.ones(chunks)).tolist(), c)
        # One more than each prefix: a prefix may be empty, a part may not.
        prefixes = apportion(u + chunks, rng.dirichlet(np.ones(chunks)).tolist(), u + chunks)
        if tokens is None or prefixes is None:
            continue
        batch = Batch.with_chunks([k] * n, [(t, p - 1) for t, p in zip(tokens, prefixes, strict=True)])
        if domain.refusal_of(batch) is None:
            found.append(batch)
    return found


def apportion(total: int, weights: Sequence[float], most: int) -> list[int] | None:
    """Whole numbers from 1 to `most` that add up to `total`, about in proportion to the weights.

    None where there are no such numbers.
    """
    count = len(weights)
    if not count <= total <= count * most:
        return None
    scale = total / sum(weights)
    parts = [min(most, max(1, int(weight * scale))) for weight in weights]
    left = total - sum(parts)
    while left > 0:
        free = [i for i, part in enumerate(parts) if part < most]
        share = max(1, left // len(free))
        for i in free:
            more = min(most - parts[i], share, left)
            parts[i] += more
            left -= more
    while left < 0:
        i = parts.index(max(parts))
        less = min(parts[i] - 1, -left)
        parts[i] -= less
        left += less
    return parts


def _alternating(
    domain: Domain, scenes: tuple[Scene, Scene], count: int, seed: np.random.SeedSequence
) -> Iterator[Point]:
    """States of the law inside the domain, the scenes in turn for as long as both last."""
    # Heavy, and not needed by the processes that measure a plan drawn before.
    from scipy.stats import qmc

    drawn: list[list[Point]] = []
    for scene, scene_seed in zip(scenes, seed.spawn(2), strict=True):
        sobol = qmc.Sobol(len(AXES[scene]) + 2, scramble=True, seed=np.random.default_rng(scene_seed))
        points = candidates(domain, scene, (), sobol.random_base2(TRIES_BITS + max(count, 1).bit_length()))
        drawn.append([(n, k, c, u) for n, k, c, u in points[inside(domain, points)].tolist()])
    for pair in zip(*drawn, strict=False):
        yield from pair
