import numpy as np
import pytest
import torch

from chunkfit.engine import SequenceWork, host_step, step

CPU = torch.device("cpu")


def build(decodes, chunks):
    return step.build_step(decodes, chunks, vocab_size=1000, pages=1000, device=CPU)


def test_rows_positions_slots_and_samples():
    built = build(
        [SequenceWork([11], 3, [7]), SequenceWork([12], 16, [9, 4])],
        [SequenceWork([21, 22, 23], 15, [5, 8]), SequenceWork([31], 0, [6])],
    )
    # The longer decode comes first; the caller's order is kept in sample_rows.
    assert built.arrays.token_ids.tolist() == [12, 11, 21, 22, 23, 31]
    assert built.arrays.positions.tolist() == [16, 3, 15, 16, 17, 0]
    assert built.arrays.slots.tolist() == [4 * 16, 7 * 16 + 3, 5 * 16 + 15, 8 * 16, 8 * 16 + 1, 6 * 16]
    assert built.arrays.sample_rows.tolist() == [1, 0, 4, 5]
    (group,) = built.decodes
    assert (group.first_row, group.count, group.longest) == (0, 2, 17)
    assert group.contexts.tolist() == [17, 4]
    assert group.block_table.tolist() == [[9, 4], [7, 0]]
    assert [(rows.first_row, rows.tokens, rows.length) for rows in built.chunks] == [(2, 3, 18), (5, 1, 1)]
    assert [rows.block_table.tolist() for rows in built.chunks] == [[5, 8], [6]]
    assert built.arrays.slots.dtype == torch.int64


def test_all_metadata_is_one_buffer():
    built = build([SequenceWork([1], 40, range(3))], [SequenceWork(range(30), 7, range(3, 6))])
    tensors = [built.arrays.token_ids, built.arrays.positions, built.arrays.slots, built.arrays.sample_rows]
    tensors += [built.decodes[0].contexts, built.decodes[0].block_table, built.chunks[0].block_table]
    assert len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == 1


def test_lists_arrays_and_tensors_are_the_same():
    from_lists = build([], [SequenceWork([1, 2, 3], 14, [5, 8])])
    from_arrays = build([], [SequenceWork(torch.tensor([1, 2, 3]), 14, np.array([5, 8]))])
    for name in ("token_ids", "positions", "slots"):
        assert torch.equal(getattr(from_lists.arrays, name), getattr(from_arrays.arrays, name))


@pytest.mark.parametrize("seed", range(5))
def test_groups_cover_every_decode_with_little_padding(seed):
    rng = np.random.default_rng(seed)
    contexts = sorted(np.exp(rng.uniform(0, 9, 200)).astype(int) + 1, reverse=True)
    groups = host_step.decode_groups(contexts)
    assert [first for first, _ in groups] == np.cumsum([0] + [count for _, count in groups])[:-1].tolist()
    assert sum(count for _, count in groups) == 200
    for first, count in groups:
        longest, shortest = contexts[first], contexts[first + count - 1]
        assert longest - shortest <= max(longest / 4, 128)
        assert count == 1 or count * longest <= host_step.GROUP_TOKENS


def test_equal_contexts_share_a_group_up_to_the_limit():
    assert host_step.decode_groups([1024] * 64) == [(0, 64)]
    assert host_step.decode_groups([1024] * 65) == [(0, 64), (64, 1)]
    assert host_step.decode_groups([]) == []
    assert host_step.decode_groups([10**6] * 2) == [(0, 1), (1, 1)]  # one sequence is never cut


def test_all_sequences_at_once_say_what_groups_and_chunks_say():
    decodes = [SequenceWork([1], context - 1, range(7, 7 + -(-context // 16))) for context in (20, 900, 3, 870)]
    chunks = [SequenceWork([1] * 30, 7, [500, 501, 502]), SequenceWork([1] * 5, 0, [600])]
    built = build(decodes, chunks)
    assert built.arrays.lengths.tolist() == [900, 870, 20, 3, 37, 5]
    assert built.arrays.first_rows.tolist() == [0, 1, 2, 3, 4, 34, 39]
    tables = [table for group in built.decodes for table in group.block_table] + [c.block_table for c in built.chunks]
    for length, start, table in zip(built.arrays.lengths, built.arrays.page_starts, tables, strict=True):
        used = -(-int(length) // 16)
        assert built.arrays.pages[start : start + used].tolist() == table[:used].tolist()


@pytest.mark.parametrize(("decodes", "chunks"), [(1, 0), (0, 1)])
def test_one_part_alone(decodes, chunks):
    built = build([SequenceWork([1], 20, [3, 4])] * decodes, [SequenceWork([1], 20, [3, 4])] * chunks)
    for name in ("lengths", "first_rows", "page_starts", "pages"):
        assert getattr(built.arrays, name).dtype == torch.int64
    assert (built.arrays.lengths.tolist(), built.arrays.page_starts.tolist()) == ([21], [0])
    assert (built.arrays.first_rows.tolist(), built.arrays.pages.tolist()) == ([0, 1], [3, 4])
