import pytest
import torch
from support.kernel_device import close
from support.paged import Paged, attention_cases, tokens_of

from chunkfit.engine.kernels.chunk_attention import (
    LEAST_KEYS_PER_SPLIT,
    MOST_PROGRAMS_PER_PROCESSOR,
    ChunkGrid,
    chunk_attention,
    grid_for,
    tile_of,
)

# (prefix, keys of a split)
CASES = attention_cases(prefix=((0, 1024), (21, 1024), (130, 1024), (260, 128)), capability=(8, 9))


def attend(batch, page, *, split_keys=1024, capability=9, skip=0):
    """All sequences but the first `skip`; split_keys: a multiple of every tile's block of keys."""
    lengths, counts = batch.lengths[skip:], batch.first_rows[skip:].diff()
    first, (_, heads, head_dim) = int(batch.first_rows[skip]), batch.queries.shape
    block_m, block_n, _, _ = tile_of(head_dim, batch.queries.element_size(), capability)
    assert split_keys % block_n == 0
    rows_of_tiles = int(counts.max()) * heads * head_dim // batch.keys.shape[1]
    grid = ChunkGrid(int(counts.sum()), -(-rows_of_tiles // block_m), -(-int(lengths.max()) // split_keys), split_keys)
    chunk_attention(
        batch.queries[first:],
        batch.keys,
        batch.values,
        batch.first_rows[skip:],
        lengths,
        batch.page_starts[skip:],
        batch.pages,
        batch.out[first:],
        page_size=page,
        grid=grid,
        capability=capability,
    )


def test_the_cover_is_small():
    assert len(CASES) <= 24


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_float64(case):
    page = case["page"]
    tokens = tokens_of(case["length"], page)
    prefix, split_keys = case["prefix"]
    batch = Paged(case["heads"], case["head_dim"], page, case["dtype"], [tokens + prefix], [tokens])
    attend(batch, page, split_keys=split_keys, capability=case["capability"])
    close(batch.out, batch.expected)


@pytest.mark.parametrize("split_keys", [1024, 64])
@pytest.mark.parametrize("prefix", [1, 15, 16, 17, 127, 128, 129, 500])
def test_prefixes(prefix, split_keys):
    """Around the ends of pages, of blocks of keys and of splits: where the masked part begins."""
    batch = Paged((7, 1), 64, 16, torch.float32, [prefix + 10], [10])
    attend(batch, 16, split_keys=split_keys)
    close(batch.out, batch.expected)


@pytest.mark.parametrize("split_keys", [1024, 64])
def test_several_chunks_of_one_batch(split_keys):
    batch = Paged((4, 2), 64, 16, torch.float32, [40, 1, 33, 170], [40, 1, 2, 12])
    attend(batch, 16, split_keys=split_keys)
    close(batch.out, batch.expected)


@pytest.mark.parametrize("split_keys", [1024, 32])
def test_only_its_rows_are_written(split_keys):
    batch = Paged((4, 2), 64, 16, torch.float32, [20, 33, 40], [1, 1, 5])
    attend(batch, 16, split_keys=split_keys, skip=2)
    close(batch.out[2:], batch.expected[2:])
    assert batch.out[:2].isnan().all()


def test_scores_far_from_zero():
    """One key outweighs those of all other splits by far more than float32 can hold of exp(score)."""
    batch = Paged((4, 2), 64, 16, torch.float32, [400], [2])
    batch.queries.mul_(100)
    batch.keys[batch.pages[20] * 16] = 100 * batch.queries[1, ::2].flatten()
    attend(batch, 16, split_keys=128)
    torch.testing.assert_close(batch.out[1, ::2].flatten(), batch.values[batch.pages[20] * 16])


HOPPER = tile_of(128, 2, 9)


def grid_of(*chunks, kv_heads=8, shared=4, processors=132):
    return grid_for(chunks, shared, kv_heads, HOPPER, processors)


def programs(grid, kv_heads=8):
    return grid.tiles * grid.splits * kv_heads


def test_a_small_chunk_after_a_long_prefix_fills_the_processors():
    assert grid_of((16, 32_784)) == ChunkGrid(rows=16, tiles=1, splits=16, keys_per_split=2112)
    for tokens in range(1, 300):
        grid = grid_of((tokens, 32_768 + tokens))
        assert 66 < programs(grid) <= 132
        assert grid.keys_per_split % HOPPER[1] == 0
        assert (grid.splits - 1) * grid.keys_per_split < 32_768 + tokens <= grid.splits * grid.keys_per_split


def test_a_chunk_that_fills_them_and_short_keys_are_not_split():
    assert grid_of((513, 100_000)).splits == 1  # 17 tiles of 8 heads
    assert grid_of((2048, 2048)) == ChunkGrid(rows=2048, tiles=64, splits=1, keys_per_split=2048)
    assert grid_of((16, 2 * LEAST_KEYS_PER_SPLIT - 1)).splits == 1
    assert grid_of((16, 2 * LEAST_KEYS_PER_SPLIT)).splits == 2


def test_of_an_uneven_batch_the_longest_sequence_alone_is_split():
    grid = grid_of((500, 500), (16, 32_784))
    assert (grid.rows, grid.tiles, grid.splits) == (516, 16, 13)
    assert grid.keys_per_split > 500


def test_parts_take_a_bounded_memory():
    """Many small chunks beside one whose keys are nearly all of the work."""
    long = (16, 131_072)
    assert grid_of(long, *[(32, 32)] * 4).splits == 16
    assert grid_of(long, *[(32, 32)] * 20).splits == MOST_PROGRAMS_PER_PROCESSOR * 132 // (21 * 8) == 12
    assert grid_of(long, *[(32, 32)] * 255).splits == 1


@pytest.mark.slow
@pytest.mark.parametrize("heads", [(32, 8), (28, 4)])
def test_real_head_counts(heads):
    batch = Paged(heads, 128, 16, torch.float32, [400, 70], [150, 70])
    attend(batch, 16, split_keys=128)
    close(batch.out, batch.expected)
