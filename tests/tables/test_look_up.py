"""Properties of the look-up, on random tables: exact, monotone, the same read one by one or at once."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.chunk_of import chunk_of
from support.random_tables import random_table

from chunkfit.files.errors import UsageError
from chunkfit.tables import Batch, OutOfDomainError
from chunkfit.tables.batch import Point
from chunkfit.tables.support import SupportKind

seeds = st.integers(0, 10_000)


def inside(table, n, k, c, u):
    if (n == 0 and c == 0) or (n and k < 1):
        return False
    return table.domain.refusal_of(Batch.of(n, k, c, u)) is None and is_known(table, n, k, c, u)


def is_known(table, n, k, c, u):
    return table.support_of(Point(n, k if n else 0, c, u if c else 0)) is not SupportKind.UNKNOWN


def bound(table, n, k, c, u):
    return table.bound_ms(Batch.of(n, k, c, u)) if n or c else 0.0


def brute_force(table, n, k, u, budget, max_chunk, align):
    """Every candidate c in turn, by the public bound alone."""
    best = 0
    if n and bound(table, n, k, 0, 0) > budget:
        return 0
    for c in range(1, max_chunk + 1):
        if (c % align == 0 or c == max_chunk) and inside(table, n, k, c, u) and bound(table, n, k, c, u) <= budget:
            best = c
    return best


def state(draw, table):
    d = table.domain
    n = draw(st.integers(0, d.max_decodes))
    k = draw(st.integers(1, d.max_context_tokens)) if n else 0
    u = draw(st.integers(0, d.max_prefix_tokens))
    return n, k, u


def answers(table, n, k, u):
    within = table.domain.refusal(n, k, 0, u) is None and max(u, k) <= table.domain.context_length
    return within and (is_known(table, n, k, 0, 0) if n else is_known(table, 0, 0, 1, u))


@settings(max_examples=250, deadline=None)
@given(seeds, st.data())
def test_largest_chunk_is_brute_force(seed, data):
    table = random_table(seed, holes=seed % 2 == 1)
    n, k, u = state(data.draw, table)
    budget = data.draw(st.sampled_from([0.0, 0.01, 0.1, 0.3, 1.0, 1e9]) | st.floats(0, 6))
    max_chunk = data.draw(st.integers(0, 60))
    align = data.draw(st.sampled_from([1, 2, 7, 16]))
    if not answers(table, n, k, u):
        return
    assert chunk_of(table, n, k, u, budget, max_chunk, align) == brute_force(table, n, k, u, budget, max_chunk, align)


@settings(max_examples=250, deadline=None)
@given(seeds, st.data())
def test_largest_chunk_falls_with_work_and_rises_with_budget(seed, data):
    table = random_table(seed, holes=seed % 2 == 1)
    n, k, u = state(data.draw, table)
    dn, dk, du = (data.draw(st.integers(0, 12)) for _ in range(3))
    more = (n + dn, max(k, 1) + dk, u + du)
    budget = data.draw(st.floats(0, 6))
    extra = data.draw(st.floats(0, 3))
    max_chunk, align = data.draw(st.integers(0, 60)), data.draw(st.sampled_from([1, 4, 16]))
    if not answers(table, n, k, u) or not answers(table, *more):
        return
    least = chunk_of(table, *more, budget, max_chunk, align)
    assert least <= chunk_of(table, n, k, u, budget, max_chunk, align)
    assert least <= chunk_of(table, *more, budget + extra, max_chunk, align)


@settings(max_examples=300, deadline=None)
@given(seeds, st.data())
def test_bound_never_falls_as_a_batch_gains_work(seed, data):
    """Single-token gains included, where a closure at the knots alone would let it fall."""
    table = random_table(seed, holes=seed % 2 == 1)
    n, k, u = state(data.draw, table)
    c = data.draw(st.integers(0, table.domain.max_chunk_tokens))
    u = u if c else 0
    gain = data.draw(st.sampled_from(["decode", "context", "chunk", "prefix", "several"]))
    n2, k2, c2, u2 = {
        "decode": (n + 1, max(k, 1), c, u),
        "context": (n, k + 1, c, u) if n else (n, k, c, u),
        "chunk": (n, k, c + 1, u),
        "prefix": (n, k, c, u + 1) if c else (n, k, c, u),
        "several": (n + 2, max(k, 1) + 5, c + 3, u + 2),
    }[gain]
    if not inside(table, n, k, c, u) or not inside(table, n2, k2, c2, u2):
        return
    assert bound(table, n, k, c, u) <= bound(table, n2, k2, c2, u2)


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_reading_many_points_equals_reading_each(seed):
    table = random_table(seed, holes=seed % 2 == 1)
    rng = np.random.default_rng(seed)
    d = table.domain
    points = np.column_stack(
        [
            rng.integers(0, d.max_decodes + 1, 60),
            rng.integers(1, d.max_context_tokens + 1, 60),
            rng.integers(0, d.max_chunk_tokens + 1, 60),
            rng.integers(0, d.max_prefix_tokens + 1, 60),
        ]
    )
    points = np.asarray([p for p in points.tolist() if inside(table, *p)], dtype=np.int64).reshape(-1, 4)
    points[points[:, 2] == 0, 3] = 0
    points[points[:, 0] == 0, 1] = 0
    if not len(points):
        return
    expected, bounds = table.read(points)
    batches = [Batch.of(*point) for point in points.tolist()]
    assert expected.tolist() == [table.expected_ms(b) for b in batches]
    assert bounds.tolist() == [table.bound_ms(b) for b in batches]
    assert (expected <= bounds).all()


def spread(draw, table):
    """Contexts, some of them equal, and chunks, none to three."""
    d = table.domain
    contexts = draw(st.lists(st.integers(1, min(9, d.max_context_tokens)) | st.just(3), max_size=min(4, d.max_decodes)))
    chunks = draw(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3)), max_size=3))
    return contexts, chunks


def allowed(table, contexts, chunks):
    if not contexts and not chunks:
        return False
    batch = Batch.with_chunks(contexts, chunks)
    return table.domain.refusal_of(batch) is None and table.support(batch) is not SupportKind.UNKNOWN


def factors_of(table):
    stored = table.document.factors
    return [
        1 if f is None else Fraction(math.ceil(f * 4096), 4096)
        for f in (stored.unequal_contexts, stored.several_chunks)
    ]


@settings(max_examples=300, deadline=None)
@given(seeds, st.data())
def test_the_bound_of_any_batch_is_the_rule_in_fractions(seed, data):
    table = random_table(seed, holes=seed % 2 == 1)
    contexts, chunks = spread(data.draw, table)
    if not allowed(table, contexts, chunks):
        return
    batch = Batch.with_chunks(contexts, chunks)
    unequal, several = factors_of(table)
    n, k, c, u = batch.point()

    def ticks(point, factor=1):
        ms = table.arrays.read(np.asarray([point], dtype=np.int64))[1][0]
        return math.ceil(Fraction(ms) * 2**14 * factor)

    expected = ticks((n, k, c, u), unequal)
    longest = max(contexts, default=0)
    if table.domain.refusal(n, longest, c, u) is None and is_known(table, n, longest, c, u):
        expected = min(expected, ticks((n, longest, c, u)))
    if len(chunks) > 1:
        expected = math.ceil(expected * several)
    assert table.bound_ms(batch) * 2**14 == expected
    assert table.expected_ms(batch) <= table.bound_ms(batch)


@settings(max_examples=400, deadline=None)
@given(seeds, st.data())
def test_the_bound_of_any_batch_never_falls_as_it_gains_work(seed, data):
    table = random_table(seed, holes=seed % 2 == 1)
    contexts, chunks = spread(data.draw, table)
    if not allowed(table, contexts, chunks):
        return
    before = Batch.with_chunks(contexts, chunks)
    gain = data.draw(st.sampled_from(["decode", "context", "equal", "chunk", "token", "prefix"]))
    if gain == "decode":
        contexts = [*contexts, before.context_tokens + data.draw(st.integers(0 if contexts else 1, 9))]
    elif gain == "context" and contexts:
        i = data.draw(st.integers(0, len(contexts) - 1))
        contexts[i] += data.draw(st.integers(1, 9))
    elif gain == "equal":  # the move that leads from an unequal batch to an equal one
        contexts = [before.longest_context] * len(contexts)
    elif gain == "chunk":
        chunks = [*chunks, (data.draw(st.integers(1, 5)), data.draw(st.integers(0, 5)))]
    elif chunks:
        i = data.draw(st.integers(0, len(chunks) - 1))
        more = (1, 0) if gain == "token" else (0, 1)
        chunks[i] = (chunks[i][0] + more[0], chunks[i][1] + more[1])
    if allowed(table, contexts, chunks):
        assert table.bound_ms(before) <= table.bound_ms(Batch.with_chunks(contexts, chunks))


@settings(max_examples=250, deadline=None)
@given(seeds, st.data())
def test_largest_chunk_beside_unequal_contexts_is_brute_force(seed, data):
    table = random_table(seed, holes=seed % 2 == 1)
    d = table.domain
    contexts = data.draw(st.lists(st.integers(1, d.max_context_tokens), min_size=1, max_size=d.max_decodes))
    prefix = data.draw(st.integers(0, d.max_prefix_tokens))
    max_chunk, align = data.draw(st.integers(0, 60)), data.draw(st.sampled_from([1, 2, 7, 16]))
    k, longest = Batch.with_chunks(contexts, []).context_tokens, max(contexts)
    if not allowed(table, contexts, []) or not answers(table, len(contexts), k, prefix):
        return
    budget = data.draw(st.sampled_from([0.01, 0.1, 0.3, 1.0, 1e9]) | st.floats(0, 6))
    exact = (data.draw(st.integers(1, 20)), prefix)
    if allowed(table, contexts, [exact]) and data.draw(st.booleans()):  # a tie, or the tick below it
        budget = table.bound_ms(Batch.with_chunks(contexts, [exact])) - data.draw(st.sampled_from([0, 2**-14]))
    best = 0
    for c in range(1, max_chunk + 1):
        one = c % align == 0 or c == max_chunk
        # By totals: the KV tokens of the batch itself are fewer by the rounding of its mean.
        if one and inside(table, len(contexts), k, c, prefix) and allowed(table, contexts, [(c, prefix)]):
            best = c if table.bound_ms(Batch.with_chunks(contexts, [(c, prefix)])) <= budget else best
    if table.bound_ms(Batch.with_chunks(contexts, [])) > budget:
        best = 0
    assert chunk_of(table, len(contexts), k, prefix, budget, max_chunk, align, longest) == best


def test_a_longest_context_below_the_mean_or_past_the_model_is_refused():
    table = random_table(5)
    d = table.domain
    with pytest.raises(UsageError, match="longest_context=1"):
        chunk_of(table, 1, 2, 0, 1.0, longest_context=1)
    with pytest.raises(OutOfDomainError, match=f"context of {d.context_length + 1:,} tokens exceeds the context"):
        chunk_of(table, 1, 1, 0, 1.0, longest_context=d.context_length + 1)


def test_several_chunks_are_read_as_the_one_that_bounds_them():
    two = Batch.with_chunks([4, 6], [(2, 1), (3, 4)])
    assert (two.chunk_tokens, two.prefix_tokens, two.context_tokens) == (5, 5, 5)


def test_outside_the_domain_is_refused_with_the_limit():
    table = random_table(5)
    d = table.domain
    with pytest.raises(OutOfDomainError, match=f"decodes n = {d.max_decodes + 1}.*limit {d.max_decodes}"):
        table.expected_ms(Batch.of(d.max_decodes + 1, 1))
    with pytest.raises(OutOfDomainError, match="decodes n"):
        chunk_of(table, d.max_decodes + 1, 1, 0, 5.0)
    with pytest.raises(OutOfDomainError, match="context length"):
        table.bound_ms(Batch.of(0, 0, 1, d.context_length))


def test_impossible_arguments_are_named():
    table = random_table(5)
    for arguments in ((-1, 5, 0, 1.0), (1, 0, 0, 1.0), (1, 1, -1, 1.0), (1, 1, 0, float("nan")), (1, 1, 0, 1.0, -1)):
        with pytest.raises(UsageError, match="largest_chunk"):
            chunk_of(table, *arguments)
    with pytest.raises(UsageError, match="align"):
        chunk_of(table, 1, 1, 0, 1.0, 8, 0)


def test_a_domain_cut_is_no_candidate_of_its_own():
    """The state with more work must not get a chunk that the one with less work is refused."""
    for seed in range(300):
        table = random_table(seed, holes=seed % 2 == 1)
        d = table.domain
        for budget in (0.2, 0.6, 1.5):
            chunks = []
            for n in range(1, d.max_decodes + 1):
                if not answers(table, n, 1, 0):
                    break
                chunks.append(chunk_of(table, n, 1, 0, budget, d.max_chunk_tokens + 1, 16))
            assert chunks == sorted(chunks, reverse=True)
