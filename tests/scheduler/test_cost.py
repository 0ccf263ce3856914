"""The compiled look-up gives the table's own answers; formulas, factors and biases are what they say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.chunk_of import chunk_of
from support.random_tables import random_table

from chunkfit.files.errors import UsageError
from chunkfit.scheduler.cost import (
    CURVED,
    OUTSIDE,
    SLOWEAVE,
    Formula,
    bound_ticks,
    from_table,
    largest_chunk,
    noise_factors,
    residual_factors,
    scaled,
)
from chunkfit.scheduler.cost.cost_record import FACTOR_ONE
from chunkfit.tables import Batch, OutOfDomainError
from chunkfit.tables.grid import budget_ticks
from chunkfit.tables.lookup import WEIGHT_ONE

TICK = 1 << 14


def refused(ask):
    try:
        return ask()
    except OutOfDomainError:
        return OUTSIDE


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10_000), st.data())
def test_bounds_are_the_tables(seed, data):
    table = random_table(seed, holes=seed % 2 == 1)
    top = table.domain.max_context_tokens + 1
    contexts = data.draw(st.lists(st.integers(1, top), max_size=table.domain.max_decodes + 1))
    chunk = st.tuples(st.integers(1, table.domain.max_chunk_tokens), st.integers(0, table.domain.max_prefix_tokens + 1))
    chunks = data.draw(st.lists(chunk, max_size=3))
    if not contexts and not chunks:
        return
    if len(chunks) > 1 and max(c + u for c, u in chunks) > table.domain.context_length:
        return  # the caller's to keep
    batch = Batch.with_chunks(contexts, chunks)
    n, k, c, u = batch.point()
    found = bound_ticks(from_table(table), n, k, batch.longest_context, c, u, len(chunks))
    assert found == refused(lambda: table.bound_ms(batch) * TICK)
    expected = bound_ticks(from_table(table, "expected"), n, k, batch.longest_context, c, u, len(chunks))
    assert expected == refused(lambda: table.expected_ms(batch) * TICK)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1.0, 0.9, 1.37]), st.data())
def test_largest_chunks_are_the_tables(seed, factor, data):
    table = random_table(seed, holes=seed % 2 == 1)
    domain = table.domain
    n = data.draw(st.integers(0, domain.max_decodes + 1))
    k = data.draw(st.integers(1, domain.max_context_tokens)) if n else 0
    longest = data.draw(st.integers(k, domain.max_context_tokens + 1)) if n else 0
    u = data.draw(st.integers(0, domain.max_prefix_tokens + 1))
    budget = data.draw(st.sampled_from([0.0, 0.01, 0.1, 0.3, 1.0, 1e6]) | st.floats(0, 6))
    max_chunk = data.draw(st.integers(0, 60))
    align = data.draw(st.sampled_from([1, 2, 7, 16]))
    cost = scaled(from_table(table), factor)
    view = table.scaled(int(cost.head[0].factor), WEIGHT_ONE)
    found = largest_chunk(cost, n, k, longest, u, budget_ticks(budget), max_chunk, align, 1)
    assert found == refused(lambda: chunk_of(view, n, k, u, budget, max_chunk, align, longest))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10_000), st.data())
def test_several_chunks_get_the_largest_that_their_bound_allows(seed, data):
    table = random_table(seed, holes=seed % 2 == 1)
    domain = table.domain
    cost = from_table(table)
    n = data.draw(st.integers(0, domain.max_decodes))
    k = data.draw(st.integers(1, domain.max_context_tokens)) if n else 0
    u = data.draw(st.integers(0, domain.max_prefix_tokens))
    limit = data.draw(st.integers(0, 60_000))
    if k > domain.context_length:
        return  # no such decode
    found = largest_chunk(cost, n, k, k, u, limit, 60, 1, 2)
    times = [bound_ticks(cost, n, k, k, c, u, 2) for c in range(1, 61)]
    alone = bound_ticks(cost, n, k, k, 0, 0, 0) if n else 0
    if found == OUTSIDE:
        assert alone == OUTSIDE or times[0] == OUTSIDE
    else:
        fits = [c for c, ticks in enumerate(times, 1) if ticks != OUTSIDE and ticks <= limit]
        assert found == (max(fits, default=0) if alone <= limit else 0)


def test_the_worked_examples_of_sloweave():
    cost = SLOWEAVE.cost()
    assert largest_chunk(cost, 4, 100, 100, 0, 10 * TICK, 4096, 1, 1) == 1355
    assert largest_chunk(cost, 40, 100, 100, 0, 10 * TICK, 4096, 1, 1) == 1025
    assert bound_ticks(cost, 40, 100, 100, 0, 0, 0) == pytest.approx((0.35 + 0.90 + 0.055 * 40) * TICK, abs=0.5)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([SLOWEAVE, CURVED]),
    st.integers(0, 300),
    st.integers(1, 8000),
    st.integers(0, 4096),
    st.integers(0, 60_000),
)
def test_a_formula_is_what_it_says(formula, n, k, c, u):
    f = formula
    ms = f.overhead + max(f.floor, f.batch_token * (n + c))
    ms += (n > 0) * (f.decodes + f.decode * n + f.decode_context * n * k)
    ms += (c > 0) * (f.chunks + f.chunk_token * c + f.chunk_prefix * u + f.chunk_pair * c * (u + c / 2))
    found = bound_ticks(formula.cost(), n, k, k, c, u, 1)
    # Half a tick, and what the coefficients lose to 2^-45 ms: up to 0.12 ticks over c (2 u + c) pairs of tokens.
    assert found == pytest.approx(ms * TICK, abs=0.63) if n or c else found == 0


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 300), st.integers(0, 60_000), st.floats(0, 400), st.sampled_from([1, 16]), st.integers(0, 3000))
def test_the_largest_chunk_of_a_formula_is_that_of_a_full_scan(n, u, budget, align, most):
    cost = CURVED.cost()
    limit = budget_ticks(budget)
    found = largest_chunk(cost, n, 700, 700, u, limit, most, align, 1)
    candidates = [c for c in (*range(align, most + 1, align), most) if c]
    alone = bound_ticks(cost, n, 700, 700, 0, 0, 0)
    fits = [c for c in candidates if bound_ticks(cost, n, 700, 700, c, u, 1) <= limit and alone <= limit]
    assert found == max(fits, default=0)


def test_a_bias_moves_every_answer():
    cost = SLOWEAVE.cost()
    exact = bound_ticks(cost, 8, 100, 100, 500, 0, 1)
    assert bound_ticks(scaled(cost, 0.9), 8, 100, 100, 500, 0, 1) == pytest.approx(0.9 * exact, rel=3e-4)
    with pytest.raises(UsageError, match="above 0"):
        scaled(cost, 0.0)


def test_factors_are_the_same_for_a_seed_and_have_the_spread_asked_for():
    noise = noise_factors(3, 0.03)
    assert (noise == noise_factors(3, 0.03)).all()
    assert (noise != noise_factors(4, 0.03)).any()
    assert np.std(np.log(noise / FACTOR_ONE)) == pytest.approx(0.03, rel=0.02)
    drawn = residual_factors(0, [0.5, 2.0])
    assert set(drawn.tolist()) == {FACTOR_ONE // 2, 2 * FACTOR_ONE}
    for wrong in ([], [1.0, 0.0], [float("nan")], [[1.0]]):
        with pytest.raises(UsageError, match="ratios"):
            residual_factors(0, wrong)
    with pytest.raises(UsageError, match="in_a_row is 0"):
        residual_factors(0, [1.0], 0)
    with pytest.raises(UsageError, match="sigma"):
        noise_factors(0, -0.1)


def test_ratios_drawn_in_a_row_keep_their_neighbours():
    """Alternately a fast and a slow second of fifty iterations: one in fifty changes, drawn one by one every other."""
    ratios = np.repeat([0.5, 2.0] * 5, 50)
    together, single = residual_factors(0, ratios, 50), residual_factors(0, ratios)
    changes = [np.mean(factors[1:] != factors[:-1]) for factors in (together, single)]
    assert changes == pytest.approx([1.5 / 50, 0.5], rel=0.1)
    assert np.mean(together == 2 * FACTOR_ONE) == pytest.approx(0.5, abs=0.05)
    steps = residual_factors(0, np.arange(1.0, 8.0), 7)[:7] // FACTOR_ONE
    assert ((np.diff(steps) % 7) == 1).all(), "the last is followed by the first"


def test_a_formula_refuses_falling_costs():
    with pytest.raises(UsageError, match="decode is -1"):
        Formula(decode=-1.0).cost()
