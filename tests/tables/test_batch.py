"""Batches and domains: what they count, what they refuse."""

import doctest

import pytest

from chunkfit.files.errors import OutOfDomainError, UsageError
from chunkfit.tables import batch as batch_module
from chunkfit.tables.batch import Batch, Chunk, Scene
from chunkfit.tables.domain import Domain

DOMAIN = Domain(
    max_decodes=8,
    max_context_tokens=100,
    max_chunk_tokens=64,
    max_prefix_tokens=200,
    max_batch_tokens=70,
    kv_tokens=500,
    context_length=150,
)


def test_docstring_examples():
    assert doctest.testmod(batch_module).failed == 0


def test_totals_of_a_mixed_batch():
    batch = Batch.with_chunks([4, 5, 10], [(16, 3), (1, 40)])
    assert batch.scene is Scene.MIXED
    assert (batch.decodes, batch.chunk_tokens, batch.prefix_tokens) == (3, 17, 43)
    assert (batch.batch_tokens, batch.kv_tokens) == (20, 19 + 43 + 17)
    assert batch.point() == (3, 7, 17, 43), "a mean context of 6.33 is read as 7"


def test_scene_goes_by_phase_not_by_size():
    assert Batch.with_chunks([], [(1, 500)]).scene is Scene.PREFILL
    assert Batch.of(1, 500).scene is Scene.DECODE


def test_one_chunk_bounds_the_work_of_several():
    """KV reads are equal, attention work is at least that of the chunks together."""
    chunks = [(16, 300), (40, 0), (8, 90)]
    batch = Batch.with_chunks([], chunks)
    c, u = batch.chunk_tokens, batch.prefix_tokens
    assert c + u == sum(ci + ui for ci, ui in chunks)
    assert c * (u + c / 2) >= sum(ci * (ui + ci / 2) for ci, ui in chunks)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Batch(), "no decodes and no chunks"),
        (lambda: Batch((0, 4)), "context of 0 tokens"),
        (lambda: Chunk(0), "chunk_tokens is 0"),
        (lambda: Chunk(4, -1), "prefix_tokens is -1"),
        (lambda: Batch.of(-1, 4), "decodes -1"),
        (lambda: Batch.of(1, 4, -2), "chunk_tokens -2"),
    ],
)
def test_impossible_batches(make, message):
    with pytest.raises(UsageError, match=message):
        make()


@pytest.mark.parametrize(
    ("batch", "limit"),
    [
        (Batch.of(9, 10), "decodes n = 9"),
        (Batch.of(1, 101), "mean context k = 101"),
        (Batch.of(0, 0, 65), "chunk tokens c = 65"),
        (Batch.with_chunks([], [(1, 101), (1, 100)]), "prefix tokens u = 201"),
        (Batch.of(7, 10, 64), r"batch tokens n \+ c = 71"),
        (Batch.of(5, 100, 1), "KV tokens n k"),
        (Batch.of(0, 0, 10, 141), "exceeds the context length 150"),
        (Batch((151, 1)), "decode context of 151"),
    ],
)
def test_each_limit_of_a_domain_is_named(batch, limit):
    with pytest.raises(OutOfDomainError, match=limit):
        DOMAIN.require(batch)


def test_the_limits_themselves_are_inside():
    for batch in (
        Batch.of(8, 62),
        Batch.of(1, 100),
        Batch.of(6, 10, 64),
        Batch.of(0, 0, 50, 100),
        Batch.of(4, 100, 1, 99),
    ):
        DOMAIN.require(batch)
