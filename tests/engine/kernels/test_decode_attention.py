import pytest
import torch
from support.kernel_device import close
from support.paged import Paged, attention_cases, tokens_of

from chunkfit.engine.kernels.decode_attention import LEAST_KEYS_PER_SPLIT, MOST_SPLITS, decode_attention, splits_for

CASES = attention_cases(splits=(1, 3))


def attend(batch, page, splits, decodes=None):
    decode_attention(
        batch.queries,
        batch.keys,
        batch.values,
        batch.lengths[:decodes],
        batch.page_starts[:decodes],
        batch.pages,
        batch.out,
        page_size=page,
        splits=splits,
    )


def test_the_cover_is_small():
    assert len(CASES) <= 24


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_float64(case):
    page = case["page"]
    # The length at hand between another and a single token.
    lengths = [page + 3, tokens_of(case["length"], page), 1]
    batch = Paged(case["heads"], case["head_dim"], page, case["dtype"], lengths, [1, 1, 1])
    attend(batch, page, case["splits"])
    close(batch.out, batch.expected)


@pytest.mark.parametrize("splits", [2, 17, MOST_SPLITS])
def test_more_splits_than_keys(splits):
    batch = Paged((4, 2), 64, 16, torch.float32, [1, 130, 1000], [1, 1, 1])
    attend(batch, 16, splits)
    close(batch.out, batch.expected)


def test_scores_far_from_zero():
    batch = Paged((4, 2), 64, 16, torch.float32, [400], [1])
    # One key outweighs all others by far more than float32 can hold of exp(score).
    batch.queries.mul_(100)
    batch.keys[batch.pages[20] * 16] = 100 * batch.queries[0, ::2].flatten()
    attend(batch, 16, 3)
    torch.testing.assert_close(batch.out[0, ::2].flatten(), batch.values[batch.pages[20] * 16])


def test_only_its_rows_are_written():
    batch = Paged((4, 2), 64, 16, torch.float32, [20, 33, 40], [1, 1, 5])
    attend(batch, 16, 2, decodes=2)
    close(batch.out[:2], batch.expected[:2])
    assert batch.out[2:].isnan().all()


def test_splits_fill_the_processors():
    # 8 KV heads on 132 processors, 4 programs each: 528 programs over what the batch has.
    assert splits_for(lengths_total=100_000, longest=100_000, kv_heads=8, processors=132) == MOST_SPLITS
    assert splits_for(lengths_total=16 * 8000, longest=8000, kv_heads=8, processors=132) == 5
    assert splits_for(lengths_total=256 * 8000, longest=8000, kv_heads=8, processors=132) == 1
    # The longest of an uneven batch gets the programs that its share of all keys is worth.
    assert splits_for(lengths_total=100_000 + 255 * 100, longest=100_000, kv_heads=8, processors=132) == 53
    assert (
        splits_for(lengths_total=2 * LEAST_KEYS_PER_SPLIT, longest=2 * LEAST_KEYS_PER_SPLIT, kv_heads=1, processors=132)
        == 2
    )
    assert splits_for(lengths_total=1, longest=1, kv_heads=1, processors=132) == 1
