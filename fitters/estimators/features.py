"""What a batch costs, as numbers a linear model can weigh: the features of SlidingServe (its Table 1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...tables.grid import Points

FEATURES = (
    "chunk_attention",  # x1 = c (u + c): every chunk token reads prefix and chunk
    "chunk_self_attention",  # x2 = c^2
    "computed_tokens",  # x3 = u + n k: tokens already in the KV cache, over the whole batch
    "decodes",  # x4 = n
    "decode_context",  # x5 = n k: KV tokens the decodes read
    "chunk_tokens",  # x6 = c
    "largest_chunk",  # x7 = max c_i; the sweep's batches have one chunk, so it equals x6 there
)


def features(points: Points) -> NDArray[np.float64]:
    """Shape (points, 7), columns as FEATURES, for points (n, k, c, u).

    The paper takes c_i <= 1 for a decode; here the phase decides, since a last chunk may be one token.
    """
    n, k, c, u = (points[:, i].astype(np.float64) for i in range(4))
    return np.column_stack([c * (u + c), c * c, u + n * k, n, n * k, c, c])
