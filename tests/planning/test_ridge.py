"""The ridge of curves whose ridge is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkfit.files.errors import UsageError
from chunkfit.planning.ridge import find_ridge, find_ridge_of_repeats

TOKENS = np.unique(np.geomspace(1, 8192, 24).round())


@settings(max_examples=60, deadline=None)
@given(st.floats(20, 2000), st.floats(0.1, 20), st.floats(0, 3))
def test_the_bend_of_a_roofline_is_found_whatever_the_overhead(ridge, streaming_ms, share):
    """overhead + max(weights / bandwidth, tokens x flops / rate), whose bend is at `ridge`."""
    overhead_ms = share * streaming_ms
    found = find_ridge(TOKENS, overhead_ms + streaming_ms * np.maximum(1, TOKENS / ridge))
    assert found.tokens == pytest.approx(ridge, rel=0.03)
    assert found.level_ms == pytest.approx(overhead_ms + streaming_ms, rel=0.02)
    assert found.ms_per_token == pytest.approx(streaming_ms / ridge, rel=0.03)
    assert found.balance_tokens == pytest.approx(ridge * (1 + overhead_ms / streaming_ms), rel=0.05)


def test_noise_moves_it_little_and_the_interval_holds_it():
    rng = np.random.default_rng(3)
    inside = 0
    for seed in range(40):
        truth = 4 * np.maximum(1, TOKENS / 300)
        repeats = [t * np.exp(0.03 * rng.standard_normal(25)) for t in truth]
        found = find_ridge_of_repeats(TOKENS, repeats, seed)
        assert found.tokens == pytest.approx(300, rel=0.1)
        inside += found.low <= 300 <= found.high
    assert inside >= 33


def test_a_curve_without_a_bend_says_which_way():
    flat = find_ridge(TOKENS, np.full(len(TOKENS), 3.0))
    assert flat.tokens is None
    assert "lies beyond" in flat.finding
    steep = find_ridge(TOKENS, 0.01 * TOKENS + 0.5)
    assert steep.tokens is None
    assert "no flat part" in steep.finding
    assert steep.balance_tokens == pytest.approx(50, rel=0.05)
    assert flat.balance_tokens is None
    falling = find_ridge(TOKENS, 3.0 - TOKENS / 8192)
    assert falling.tokens is None
    assert find_ridge_of_repeats(TOKENS, [np.full(5, 3.0)] * len(TOKENS)).low is None


def test_too_little_to_tell_is_refused():
    for tokens, ms in (([1, 2, 3, 4], [1, 1, 2, 3]), ([1, 2, 2, 4, 5], [1] * 5), ([1, 2, 3, 4, 5], [1, 1, 0, 1, 1])):
        with pytest.raises(UsageError, match="at least 5"):
            find_ridge(tokens, ms)
