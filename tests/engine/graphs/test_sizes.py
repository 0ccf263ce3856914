"""Which size a batch is padded to."""

import pytest

from chunkfit.engine.config import PRESETS
from chunkfit.engine.graphs import CAPTURE_SIZES, DECODE_SIZES, bucket_for
from chunkfit.engine.memory import largest_batch


def test_the_sizes():
    assert CAPTURE_SIZES[:7] == (1, 2, 4, 8, 16, 32, 48)
    assert CAPTURE_SIZES[-3:] == (448, 480, 512)
    assert list(CAPTURE_SIZES) == sorted(set(CAPTURE_SIZES))
    assert CAPTURE_SIZES[: len(DECODE_SIZES)] == DECODE_SIZES
    assert DECODE_SIZES[-1] == largest_batch(PRESETS["llama-3-8b"]).decodes


@pytest.mark.parametrize("size", CAPTURE_SIZES)
def test_the_smallest_that_holds_the_tokens(size):
    assert bucket_for(size, CAPTURE_SIZES) == size
    larger = [other for other in CAPTURE_SIZES if other > size]
    assert bucket_for(size + 1, CAPTURE_SIZES) == (min(larger) if larger else None)
    assert bucket_for(size, [other for other in CAPTURE_SIZES if other != size]) == (min(larger) if larger else None)
