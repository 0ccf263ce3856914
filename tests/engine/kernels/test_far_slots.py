"""Slots whose element offset is past 2^31, in a pool whose other pages are never touched (and so take no memory
on the CPU). A sequence of one token attends to itself alone: the result is its value.
"""

import pytest
import torch
from support.kernel_device import DEVICE

from chunkfit.engine.kernels.chunk_attention import ChunkGrid, chunk_attention
from chunkfit.engine.kernels.decode_attention import decode_attention
from chunkfit.engine.kernels.rope_kv import rope_kv
from chunkfit.engine.kv_cache import LayerCache

PAGE = 2**31 // (16 * 64) + 3
SLOT = 16 * PAGE


@pytest.fixture
def pool():
    pool = torch.empty((SLOT + 16, 64), dtype=torch.float16, device=DEVICE)
    pool[SLOT] = torch.arange(64)
    return pool


def ints(*values):
    return torch.tensor(values, device=DEVICE)


@pytest.mark.parametrize("splits", [1, 2])
def test_decode_attention(pool, splits):
    queries = torch.ones((1, 1, 64), dtype=torch.float16, device=DEVICE)
    out = torch.zeros_like(queries)
    decode_attention(queries, pool, pool, ints(1), ints(0), ints(PAGE), out, page_size=16, splits=splits)
    assert out.flatten().tolist() == list(range(64))


@pytest.mark.parametrize("splits", [1, 2])
def test_chunk_attention(pool, splits):
    queries = torch.ones((1, 1, 64), dtype=torch.float16, device=DEVICE)
    out = torch.zeros_like(queries)
    grid = ChunkGrid(rows=1, tiles=1, splits=splits, keys_per_split=128)
    chunk_attention(
        queries, pool, pool, ints(0, 1), ints(1), ints(0), ints(PAGE), out, page_size=16, grid=grid, capability=9
    )
    assert out.flatten().tolist() == list(range(64))


def test_rope_kv(pool):
    projected = torch.full((1, 3, 64), 7.0, dtype=torch.float16, device=DEVICE)
    turn = torch.ones((1, 1, 64), device=DEVICE)
    rope_kv(projected, None, turn, 0 * turn, ints(SLOT), LayerCache(pool, pool))
    assert pool[SLOT].tolist() == [7.0] * 64
