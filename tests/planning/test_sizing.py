"""The static budget is the brute-force one, monotone, and no iteration it allows breaks the limit."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.random_tables import random_table

from chunkfit.files.errors import UsageError
from chunkfit.planning.sizing import Prompt, budget_ridge, retune_fields, static_budget
from chunkfit.tables import Batch, CostTable, OutOfDomainError
from chunkfit.tables.document import sealed
from chunkfit.tables.fingerprint import Fingerprint

seeds = st.integers(0, 10_000)


def with_factors(table, unequal, several):
    factors = table.document.factors.model_copy(update={"unequal_contexts": unequal, "several_chunks": several})
    return CostTable(sealed(table.document.model_copy(update={"factors": factors})))


def allowed(budget, decodes, prompts):
    """(n, c, u, more than one prompt) of every iteration: all n, all c, all places in all prompts."""
    for n in range(1, decodes + 1):
        for c in range(1, budget - n + 1):
            for prompt in prompts:
                if c > prompt.suffix_tokens:
                    whole = -(-c // prompt.suffix_tokens)
                    yield n, c, prompt.hit_tokens * whole, True
                else:
                    yield from ((n, c, u, False) for u in range(prompt.hit_tokens, prompt.tokens - c + 1))
            if not prompts:
                yield n, c, 0, False


def slowest(table, k, iterations):
    """Largest bound, factors included, in whole ticks as the table rounds."""
    factors = table.document.factors
    ticks = np.rint(table.arrays.read(np.asarray([(n, k, c, u) for n, c, u, _ in iterations]))[1] * 2**14)
    raised = []
    for (n, _, _, several), value in zip(iterations, ticks.astype(int).tolist(), strict=True):
        for factor, holds in ((factors.unequal_contexts, n > 1), (factors.several_chunks, several)):
            weight = math.ceil((factor or 1) * 4096) if holds else 4096
            value = -(-value * weight // 4096)
        raised.append(value)
    return max(raised) / 2**14


def brute_force(table, decodes, k, limit, prompts):
    """Largest budget whose every iteration is measured and within the limit; None: not even the first is measured."""
    best = None
    for budget in range(decodes + 1, table.domain.max_batch_tokens + 1):
        iterations = list(allowed(budget, decodes, prompts))
        if any(table.domain.refusal(n, k, c, u) is not None for n, c, u, _ in iterations):
            break
        if not prompts and budget - 1 > table.domain.context_length:
            break
        if slowest(table, k, iterations) > limit:
            return best or 0
        best = budget
    return best


def draw_state(draw, table):
    d = table.domain
    decodes = draw(st.integers(1, min(6, d.max_decodes)))
    k = draw(st.integers(1, min(d.max_context_tokens, d.context_length)))
    prompts = []
    for _ in range(draw(st.integers(0, 2))):
        tokens = draw(st.integers(1, min(14, d.max_prefix_tokens + 1, d.context_length)))
        prompts.append(Prompt(tokens, draw(st.integers(0, tokens - 1))))
    return decodes, k, prompts


def answer(table, *arguments):
    try:
        return static_budget(table, *arguments).tokens
    except OutOfDomainError:
        return None


@settings(max_examples=150, deadline=None)
@given(seeds, st.data())
def test_the_budget_is_brute_force(seed, data):
    factors = st.none() | st.floats(1, 2)
    table = with_factors(random_table(seed), data.draw(factors), data.draw(factors))
    decodes, k, prompts = draw_state(data.draw, table)
    if table.domain.refusal(decodes, k, 0, 0) is not None:
        return
    try:
        largest = static_budget(table, decodes, k, 1e9, prompts)
    except OutOfDomainError:
        assert brute_force(table, decodes, k, 1e9, prompts) is None
        return
    limit = largest.worst_ms * data.draw(st.sampled_from([0.0, 1.0]) | st.floats(0.4, 1.2))
    assert static_budget(table, decodes, k, limit, prompts).tokens == brute_force(table, decodes, k, limit, prompts)


@settings(max_examples=200, deadline=None)
@given(seeds, st.data())
def test_it_rises_with_the_limit_and_falls_with_work(seed, data):
    table = random_table(seed)
    decodes, k, prompts = draw_state(data.draw, table)
    limit, extra = data.draw(st.floats(0, 6)), data.draw(st.floats(0, 3))
    here = answer(table, decodes, k, limit, prompts)
    if here is None:
        return
    assert here <= answer(table, decodes, k, limit + extra, prompts)
    for more in (
        (decodes + data.draw(st.integers(0, 3)), k, limit, prompts),
        (decodes, k + data.draw(st.integers(0, 20)), limit, prompts),
        (decodes, k, limit, [*prompts, Prompt(5, 2)] if prompts else prompts),
    ):
        there = answer(table, *more)
        assert there is None or there <= here


def test_the_worst_iteration_is_one_it_allows_and_one_token_more_is_late():
    tried = 0
    for seed in range(120):
        table = random_table(seed)
        prompts = [Prompt(6, 2)]
        try:
            most = static_budget(table, 2, 1, 1e9, prompts)
        except OutOfDomainError:
            continue
        assert most.limited_by == "domain"
        for share in (0.85, 0.95, 0.99):
            found = static_budget(table, 2, 1, most.worst_ms * share, prompts)
            if not found.tokens:
                assert (found.worst, found.limited_by) == (None, "target")
                continue
            n, _, c, u = found.worst
            iteration = next(i for i in allowed(found.tokens, 2, prompts) if i[:3] == (n, c, u))
            assert found.worst_ms == slowest(table, 1, [iteration]) <= found.limit_ms
            assert (found.limited_by, found.tokens < most.tokens) == ("target", True)
            assert static_budget(table, 2, 1, found.worst_ms, prompts).tokens == found.tokens
            tried += 1
    assert tried > 5


def test_hits_shorten_the_prompt():
    assert Prompt.after_hits(4000, 0.5) == Prompt(4000, 2000)
    assert Prompt.after_hits(4000, 1.0).suffix_tokens == 1
    assert Prompt.after_hits(7, 0.5).hit_tokens == 3
    for make in (lambda: Prompt.after_hits(10, 1.5), lambda: Prompt(0), lambda: Prompt(5, 5), lambda: Prompt(5, -1)):
        with pytest.raises(UsageError):
            make()


def test_what_the_table_does_not_cover_is_refused_with_the_limit():
    table = random_table(5)
    d = table.domain
    with pytest.raises(OutOfDomainError, match="decodes n"):
        static_budget(table, d.max_decodes + 1, 1, 5.0)
    with pytest.raises(OutOfDomainError, match=f"context length {d.context_length}"):
        static_budget(table, 1, 1, 5.0, [Prompt(d.context_length + 1)])
    for arguments in ((0, 1, 5.0), (1, 0, 5.0), (1, 1, float("nan"))):
        with pytest.raises(UsageError, match="static_budget"):
            static_budget(table, *arguments)


def test_triggers_are_the_fields_that_ask_for_another_table():
    fields = retune_fields(Fingerprint(dtype="bfloat16", engine="vllm", driver="570"))
    assert fields["refuse"]["dtype"] == "bfloat16"
    assert {"device_name", "model_shape", "dtype", "tensor_parallel", "engine"} <= fields["refuse"].keys()
    assert fields["warn"]["driver"] == "570"
    assert not fields["refuse"].keys() & fields["warn"].keys()
    assert "os" not in fields["refuse"] | fields["warn"]


def test_the_ridge_of_a_known_truth(golden):
    """reference-v1: max(8, 0.045 t) bends at 178 tokens, less a smear of its step and its attention."""
    found = budget_ridge(golden, 40, 1000)
    assert 140 <= found.tokens <= 200
    assert found.low is None
    assert golden.expected_ms(Batch.of(40, 1000, 1)) == pytest.approx(found.level_ms, rel=0.1)
