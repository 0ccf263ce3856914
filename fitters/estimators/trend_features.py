"""What an iteration's time can be made of, as columns that never fall as a batch gains work.

Non-negative weights of them give a cost that extrapolates: lines past the last hinge, tiles, the floor of
streaming weights (a constant that a hinge leaves), attention, and what scenes add to each other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...tables.grid import Points
from .features import features

Floats = NDArray[np.float64]

# Where a line may bend, in tokens: powers of two, and halfway between them where matrix tiles and ridges lie.
TOTALS = (4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192)
STEPS = (128, 256, 512, 1024, 2048)
TILES = (16, 64, 128, 256)
DECODES = (4, 16, 32, 64, 128, 256)
CHUNKS = (16, 64, 256, 512, 1024, 2048, 4096)
CONTEXTS = tuple(2**power for power in range(10, 22, 2))
PREFIXES = (256, 1024, 4096, 16384)
PAIRS = (10**4, 10**5, 10**6, 10**7, 10**8)


def trend_features(points: Points) -> Floats:
    """Shape (points, 101), all columns >= 0 and non-decreasing in each of n, k, c, u."""
    n, k, c, u = points.T.astype(np.float64)
    total, read, pairs = n + c, n * k, c * (u + c / 2)
    decoding, filling = (n > 0).astype(np.float64), (c > 0).astype(np.float64)
    columns = [np.ones(len(points)), decoding, filling, decoding * filling]
    columns += [n, c, k, u, read, read + u, pairs, c * u, c * c, c * (u + c)]
    columns += [filling * n, decoding * c, filling * read, decoding * pairs, n * c]
    columns += [np.sqrt(x) for x in (n, c, read, pairs)]
    columns += [(total > step).astype(np.float64) for step in STEPS]
    columns += [np.ceil(total / tile) * tile for tile in TILES]
    columns += [np.ceil(c / 128) * 128 * (u + c), np.ceil(n / 8) * 8]
    for x, hinges, levels in (
        (total, TOTALS, TOTALS[::3]),
        (n, DECODES, DECODES[::2]),
        (c, CHUNKS, CHUNKS[::2]),
        (read, CONTEXTS, CONTEXTS[::2]),
        (u, PREFIXES, PREFIXES[::2]),
        (pairs, PAIRS, PAIRS[::2]),
    ):
        columns += [np.maximum(x - hinge, 0.0) for hinge in hinges]
        columns += [np.minimum(x, level) for level in levels]
    return np.column_stack(columns)


def few_trend_features(points: Points) -> Floats:
    """Shape (points, 10), ordered as those above: what an iteration and each phase cost at all, and SlidingServe's
    seven."""
    decoding, filling = ((points[:, axis] > 0).astype(np.float64) for axis in (0, 2))
    return np.column_stack([np.ones(len(points)), decoding, filling, features(points)])
