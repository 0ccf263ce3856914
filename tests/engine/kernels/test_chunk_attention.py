import pytest
import torch
from support.kernel_device import close
from support.paged import Paged, attention_cases, tokens_of

from chunkfit.engine.kernels.chunk_attention import chunk_attention

CASES = attention_cases(prefix=(0, 21), capability=(8, 9))


def attend(batch, page, longest, capability=9, skip=0):
    chunk_attention(
        batch.queries,
        batch.keys,
        batch.values,
        batch.first_rows[skip:],
        batch.lengths[skip:],
        batch.page_starts[skip:],
        batch.pages,
        batch.out,
        page_size=page,
        longest_chunk=longest,
        capability=capability,
    )


def test_the_cover_is_small():
    assert len(CASES) <= 24


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_float64(case):
    page = case["page"]
    tokens = tokens_of(case["length"], page)
    batch = Paged(case["heads"], case["head_dim"], page, case["dtype"], [tokens + case["prefix"]], [tokens])
    attend(batch, page, tokens, case["capability"])
    close(batch.out, batch.expected)


@pytest.mark.parametrize("prefix", [1, 15, 16, 17, 127, 128, 129, 500])
def test_prefixes(prefix):
    """Around the ends of pages and of blocks of keys: where the masked part begins."""
    batch = Paged((7, 1), 64, 16, torch.float32, [prefix + 40], [40])
    attend(batch, 16, 40)
    close(batch.out, batch.expected)


def test_several_chunks_of_one_batch():
    batch = Paged((4, 2), 64, 16, torch.float32, [90, 1, 33, 200], [90, 1, 2, 40])
    attend(batch, 16, 90)
    close(batch.out, batch.expected)


def test_only_its_rows_are_written():
    batch = Paged((4, 2), 64, 16, torch.float32, [20, 33, 40], [1, 1, 5])
    attend(batch, 16, 5, skip=2)
    close(batch.out[2:], batch.expected[2:])
    assert batch.out[:2].isnan().all()


@pytest.mark.slow
@pytest.mark.parametrize("heads", [(32, 8), (28, 4)])
def test_real_head_counts(heads):
    batch = Paged(heads, 128, 16, torch.float32, [400, 70], [150, 70])
    attend(batch, 16, 150)
    close(batch.out, batch.expected)
