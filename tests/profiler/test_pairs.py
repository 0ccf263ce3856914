"""Batches to be measured beside the one they are read as: equal totals, other layouts, inside the domain."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkfit.engine import PRESETS, resolve_model
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN, cpu_domain, cuda_domain
from chunkfit.profiler.pairs import MOST_CHUNKS, apportion, several_chunks, unequal_contexts
from chunkfit.tables.domain import Domain

DOMAINS = {
    "synthetic": SYNTHETIC_DOMAIN,
    "cpu": cpu_domain(PRESETS["tiny"]),
    "cuda": cuda_domain(resolve_model("llama-3-8b"), 100 << 30),
}


def seed(number=0):
    return np.random.SeedSequence(number)


@pytest.mark.parametrize("name", DOMAINS)
def test_unequal_contexts(name):
    batches = unequal_contexts(DOMAINS[name], 32, seed())
    assert len(batches) == 32
    assert 12 <= Counter(batch.scene.value for batch in batches)["mixed"] <= 20
    spreads = []
    for batch in batches:
        contexts = batch.decode_contexts
        assert sum(contexts) == batch.decodes * batch.context_tokens, "the mean is whole: totals are equal exactly"
        assert DOMAINS[name].refusal_of(batch) is None
        assert batch.longest_context > batch.context_tokens
        assert len(batch.chunks) <= 1
        spreads.append((len(set(contexts)), batch.longest_context / min(contexts)))
    assert sum(kinds > 3 and ratio > 10 for kinds, ratio in spreads) >= 5, "geometric"
    assert sum(kinds <= 3 and ratio > 10 for kinds, ratio in spreads) >= 5, "one long, many short"


@pytest.mark.parametrize("name", DOMAINS)
def test_several_chunks(name):
    batches = several_chunks(DOMAINS[name], 30, seed())
    assert 11 <= Counter(batch.scene.value for batch in batches)["mixed"] <= 19
    assert Counter(len(batch.chunks) for batch in batches) == {2: 10, 3: 10, MOST_CHUNKS: 10}
    for batch in batches:
        assert DOMAINS[name].refusal_of(batch) is None
        assert len(set(batch.decode_contexts)) <= 1
    assert sum(batch.prefix_tokens > 0 for batch in batches) > 15


def test_the_seed_decides_and_none_is_asked_for_none():
    for draw in (unequal_contexts, several_chunks):
        assert draw(SYNTHETIC_DOMAIN, 8, seed(1)) == draw(SYNTHETIC_DOMAIN, 8, seed(1))
        assert draw(SYNTHETIC_DOMAIN, 8, seed(1)) != draw(SYNTHETIC_DOMAIN, 8, seed(2))
        assert draw(SYNTHETIC_DOMAIN, 0, seed(1)) == []


def test_a_domain_without_room_gives_fewer():
    """One decode and two-token chunks at most: nothing unequal, chunks of one token each."""
    narrow = Domain(
        max_decodes=1,
        max_context_tokens=64,
        max_chunk_tokens=2,
        max_prefix_tokens=8,
        max_batch_tokens=3,
        kv_tokens=128,
        context_length=64,
    )
    assert unequal_contexts(narrow, 8, seed()) == []
    for batch in several_chunks(narrow, 8, seed()):
        assert [chunk.chunk_tokens for chunk in batch.chunks] == [1, 1]


@given(
    st.integers(1, 5000),
    st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=30),
    st.integers(1, 500),
)
def test_apportion_gives_parts_of_the_total(total, weights, most):
    parts = apportion(total, weights, most)
    if not len(weights) <= total <= len(weights) * most:
        assert parts is None
        return
    assert sum(parts) == total
    assert len(parts) == len(weights)
    assert 1 <= min(parts) <= max(parts) <= most


def test_apportion_follows_the_weights_and_shares_out_what_a_limit_cuts():
    assert apportion(100, [3, 1, 1], 100) == [60, 20, 20]
    assert apportion(100, [0.97, 0.01, 0.01, 0.01], 40) == [40, 20, 20, 20]
    assert apportion(5, [1000, 1, 1, 1], 100) == [2, 1, 1, 1]
