"""A live factor changes no order: between knots, across scenes, and in the largest chunk."""

import numpy as np
import pytest
from support.chunk_of import chunk_of
from support.random_tables import random_table

from chunkfit import Batch, OutOfDomainError
from chunkfit.files.errors import UsageError
from chunkfit.tables.closure import read_surface, seams
from chunkfit.tables.lookup import WEIGHT_ONE, raised

FACTORS = [1, 1000, WEIGHT_ONE - 1, WEIGHT_ONE, WEIGHT_ONE + 1, 5325, 40_001]


def random_batches(table, rng, count):
    domain = table.domain
    found = []
    while len(found) < count:
        contexts = rng.integers(1, domain.max_context_tokens + 1, rng.integers(0, domain.max_decodes + 1))
        if rng.random() < 0.5:
            contexts[:] = contexts[:1]
        chunks = [
            (int(rng.integers(1, domain.max_chunk_tokens + 1)), int(rng.integers(0, domain.max_prefix_tokens + 1)))
            for _ in range(rng.integers(0, 3))
        ]
        if (len(contexts) or chunks) and domain.refusal_of(
            batch := Batch.with_chunks(contexts.tolist(), chunks)
        ) is None:
            found.append(batch)
    return found


def gains(batch):
    """Batches with a little more work, in and out of the domain."""
    contexts, chunks = list(batch.decode_contexts), [(c.chunk_tokens, c.prefix_tokens) for c in batch.chunks]
    if contexts:
        yield [k + 1 for k in contexts], chunks
    yield [*contexts, max(contexts, default=20)], chunks
    if chunks:
        (c, u), *rest = chunks
        yield contexts, [(c + 1, u), *rest]
        yield contexts, [(c, u + 1), *rest]
    yield contexts, [*chunks, (1, 0)]


@pytest.mark.parametrize("seed", range(12))
def test_more_work_never_takes_less(seed):
    table, rng = random_table(seed), np.random.default_rng(seed)
    views = [table.scaled(int(rng.choice(FACTORS)), int(rng.choice(FACTORS))) for _ in range(4)]
    compared = 0
    for batch in random_batches(table, rng, 60):
        assert all(view.expected_ms(batch) <= view.bound_ms(batch) for view in views)
        for more in (Batch.with_chunks(*gain) for gain in gains(batch)):
            if table.domain.refusal_of(more) is not None:
                continue
            # Expected times are in order inside a scene; between scenes only bounds are.
            same_scene = batch.scene == more.scene
            for view in views:
                assert view.bound_ms(batch) <= view.bound_ms(more)
                assert not same_scene or view.expected_ms(batch) <= view.expected_ms(more)
                compared += 1
    assert compared > 50


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("factor", FACTORS)
def test_the_seams_hold_at_every_integer(seed, factor):
    arrays = random_table(seed).arrays
    for seam in seams(arrays.axes, arrays.ladders, arrays.bound):
        below, above = (
            read_surface(arrays.axes, scene, arrays.ladders[scene], arrays.bound[scene], points)
            for scene, points in ((seam.lower, seam.points_below), ("mixed", seam.points_above))
        )
        assert (raised(below, factor) <= raised(above, factor)).all()


def test_a_factor_per_scene_would_break_a_seam():
    """Decodes 5% up and mixed batches not: somewhere a chunk token more would take less."""
    broken = 0
    for table in map(random_table, range(12)):
        decode, mixed = table.scaled(4301, WEIGHT_ONE), table
        for n, k in np.ndindex(table.domain.max_decodes, table.domain.max_context_tokens):
            less, more = Batch.of(n + 1, k + 1), Batch.of(n + 1, k + 1, 1)
            if table.domain.refusal_of(more) is None:
                assert decode.bound_ms(less) <= decode.bound_ms(more)
                broken += decode.bound_ms(less) > mixed.bound_ms(more)
    assert broken


@pytest.mark.parametrize("seed", range(12))
def test_the_largest_chunk_is_the_largest(seed):
    """Against every candidate, with unequal contexts too, at budgets on and beside a bound."""
    table, rng = random_table(seed), np.random.default_rng(100 + seed)
    domain = table.domain
    for _ in range(25):
        view = table.scaled(int(rng.choice(FACTORS)), WEIGHT_ONE)
        n, u = int(rng.integers(0, domain.max_decodes + 1)), int(rng.integers(0, domain.max_prefix_tokens + 1))
        k = int(rng.integers(1, domain.max_context_tokens + 1)) if n else 0
        fits = {
            c: view.bound_ms(Batch.of(n, k, c, u))
            for c in range(1, domain.max_chunk_tokens + 1)
            if domain.refusal_of(Batch.of(n, k, c, u)) is None
        }
        if not fits or (n and domain.refusal_of(Batch.of(n, k)) is not None):
            continue
        some = float(rng.choice(list(fits.values())))
        alone = view.bound_ms(Batch.of(n, k)) if n else 0.0
        for budget in (some, np.nextafter(some, 0), some + 0.01, 0.0, -1.0, np.inf):
            wanted = max([c for c, ms in fits.items() if ms <= budget], default=0) if alone <= budget else 0
            assert chunk_of(view, n, k, u, float(budget)) == wanted


def test_the_largest_chunk_of_unequal_contexts_fits_and_the_next_does_not():
    checked = 0
    for seed in range(60):
        table, rng = random_table(seed), np.random.default_rng(seed)
        view = table.scaled(int(rng.choice(FACTORS)), WEIGHT_ONE)
        for batch in random_batches(table, rng, 30):
            if len(batch.chunks) != 1 or batch.longest_context == batch.context_tokens:
                continue
            contexts, u = batch.decode_contexts, batch.prefix_tokens
            budget = view.bound_ms(batch)
            tokens = chunk_of(
                view, len(contexts), batch.context_tokens, u, budget, longest_context=batch.longest_context
            )
            after = Batch.with_chunks(contexts, [(tokens + 1, u)])
            assert tokens >= batch.chunk_tokens
            assert view.bound_ms(Batch.with_chunks(contexts, [(tokens, u)])) <= budget
            assert table.domain.refusal_of(after) is not None or view.bound_ms(after) > budget
            checked += 1
    assert checked > 50


def test_many_points_are_read_as_each():
    table = random_table(1)
    for factors in ((WEIGHT_ONE, WEIGHT_ONE), (5325, 1000), (1000, 5325)):
        view = table.scaled(*factors)
        batches = [
            batch
            for batch in random_batches(table, np.random.default_rng(0), 200)
            if len(batch.chunks) <= 1 and batch.longest_context == batch.context_tokens
        ]
        expected, bounds = view.read(np.asarray([batch.point() for batch in batches]))
        assert expected.tolist() == [view.expected_ms(batch) for batch in batches]
        assert bounds.tolist() == [view.bound_ms(batch) for batch in batches]


def test_a_scaled_table_is_not_saved_as_the_table(tmp_path):
    with pytest.raises(UsageError, match="calibrator's state"):
        random_table(1).scaled(5325, WEIGHT_ONE).save(tmp_path / "table.json")


def test_wrong_input_is_refused_as_by_the_table():
    table = random_table(1)
    view = table.scaled(5000, WEIGHT_ONE)
    with pytest.raises(OutOfDomainError, match="decodes n"):
        view.bound_ms(Batch.of(10_000, 1))
    with pytest.raises(UsageError, match="a budget that is a number"):
        chunk_of(view, 1, 1, 0, float("nan"))
    for wrong in ({"bound_factor": 0}, {"expected_factor": -4096}):
        with pytest.raises(UsageError, match="at least 1"):
            view.scaled(**({"bound_factor": WEIGHT_ONE, "expected_factor": WEIGHT_ONE} | wrong))
