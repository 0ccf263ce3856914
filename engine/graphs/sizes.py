"""The numbers of tokens that are captured: each costs memory and seconds, each gap costs padding."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

# Up to 256 a step of 16 is what rows of a matrix product's tile are anyway; past 512 an iteration of an 8B model is
# longer than its launches take the host, and padding costs arithmetic.
CAPTURE_SIZES: tuple[int, ...] = (1, 2, 4, 8, *range(16, 257, 16), *range(288, 513, 32))
# Of batches of decodes alone, which are captured whole.
DECODE_SIZES = tuple(size for size in CAPTURE_SIZES if size <= 256)


def bucket_for(tokens: int, sizes: Sequence[int]) -> int | None:
    """The smallest of the ascending `sizes` that holds `tokens`, None past the largest.

    >>> bucket_for(17, CAPTURE_SIZES), bucket_for(32, CAPTURE_SIZES), bucket_for(513, CAPTURE_SIZES)
    (32, 32, None)
    """
    index = bisect_left(sizes, tokens)
    return sizes[index] if index < len(sizes) else None
