"""CUDA graphs of the engine, each captured for a few sizes; a batch is padded to the next size.

A pass over decodes alone is one graph. For any other batch the graphs are piecewise: attention runs eagerly between
them. Importing this package imports no torch: whoever plans measurements needs the sizes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

# Token counts that are captured: each costs memory and seconds, each gap costs padding. Tiles of a matrix product have
# 16 rows, hence steps of 16 up to 256. Past 512 the host launches an iteration of an 8B model faster than the GPU
# runs it, and padding costs arithmetic.
CAPTURE_SIZES: tuple[int, ...] = (1, 2, 4, 8, *range(16, 257, 16), *range(288, 513, 32))
# Decode counts for which the whole pass is captured.
DECODE_SIZES = tuple(size for size in CAPTURE_SIZES if size <= 256)


def bucket_for(tokens: int, sizes: Sequence[int]) -> int | None:
    """The smallest of the ascending `sizes` that holds `tokens`, None past the largest.

    >>> bucket_for(17, CAPTURE_SIZES), bucket_for(32, CAPTURE_SIZES), bucket_for(513, CAPTURE_SIZES)
    (32, 32, None)
    """
    index = bisect_left(sizes, tokens)
    return sizes[index] if index < len(sizes) else None
