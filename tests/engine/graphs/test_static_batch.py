"""Padding says what it is: sequences of one token on the page that nobody owns; the batch itself stays as it is."""

import numpy as np
import torch

from chunkfit.engine import SequenceWork
from chunkfit.engine.graphs.static_batch import EMPTY_BATCH, StaticBatch, pad_decodes, pad_rows
from chunkfit.engine.host_step import lay_out

DUMMY = 1000
CPU = torch.device("cpu")


def lay(decodes, chunks):
    return lay_out(decodes, chunks, vocab_size=100, pages=DUMMY)


DECODES = [SequenceWork([11], 3, [7]), SequenceWork([12], 16, [9, 4]), SequenceWork([13], 0, [2])]
CHUNKS = [SequenceWork([21, 22, 23], 15, [5, 8])]


def test_rows_of_padding():
    batch = lay(DECODES, CHUNKS)
    padded = pad_rows(batch, 8, DUMMY)
    assert padded.arrays.token_ids.tolist() == [12, 11, 13, 21, 22, 23, 0, 0]
    assert padded.arrays.positions.tolist() == [16, 3, 0, 15, 16, 17, 0, 0]
    assert padded.arrays.slots.tolist() == [*batch.arrays.slots.tolist(), DUMMY * 16, DUMMY * 16]
    for name in ("sample_rows", "lengths", "first_rows", "page_starts", "pages"):
        assert getattr(padded.arrays, name) is getattr(batch.arrays, name)
    assert (padded.groups, padded.chunks) == (batch.groups, batch.chunks)


def test_decodes_of_padding():
    batch = lay(DECODES, [])
    padded = pad_decodes(batch, 8, DUMMY)
    assert padded.arrays.lengths.tolist() == [17, 4, 1, 1, 1, 1, 1, 1]
    assert padded.arrays.sample_rows.tolist() == [1, 0, 2, 0, 0, 0, 0, 0]
    assert padded.arrays.first_rows.tolist() == list(range(9))
    assert padded.arrays.pages.tolist()[: len(batch.arrays.pages)] == batch.arrays.pages.tolist()
    for sequence in range(3, 8):
        assert padded.arrays.pages[padded.arrays.page_starts[sequence]] == DUMMY
        assert padded.arrays.slots[sequence] == DUMMY * 16
    assert {array.dtype for array in padded.arrays} == {np.dtype(np.int64)}


def test_a_full_size_has_no_padding():
    batch = lay(DECODES, [])
    padded = pad_decodes(batch, 3, DUMMY)
    for padded_array, array in zip(padded.arrays, batch.arrays, strict=True):
        assert padded_array.tolist() == array.tolist()


def test_nothing_but_padding():
    padded = pad_decodes(EMPTY_BATCH, 2, DUMMY)
    assert [array.tolist() for array in padded.arrays] == [
        [0, 0],
        [0, 0],
        [DUMMY * 16] * 2,
        [0, 0],
        [1, 1],
        [0, 1, 2],
        [0, 0],
        [DUMMY],
    ]


def test_captured_views_read_what_was_loaded():
    static = StaticBatch(8, 64, CPU)
    rows, decodes = static.rows_step(8), static.decode_step(4, 100)
    batch = pad_rows(lay(DECODES, CHUNKS), 8, DUMMY)
    static.load(batch)
    step = static.step(batch)
    for name in ("token_ids", "positions", "slots"):
        captured, loaded, eager = (getattr(one.arrays, name).tolist() for one in (rows, batch, step))
        assert captured == loaded == eager
    assert [chunk.block_table.tolist() for chunk in step.chunks] == [[5, 8]]
    batch = pad_decodes(lay(DECODES, []), 4, DUMMY)
    static.load(batch)
    for name in ("token_ids", "positions", "slots", "sample_rows", "lengths", "first_rows", "page_starts"):
        assert getattr(decodes.arrays, name).tolist() == getattr(batch.arrays, name).tolist()
    assert decodes.arrays.pages[: len(batch.arrays.pages)].tolist() == batch.arrays.pages.tolist()
    assert (decodes.decodes[0].count, decodes.decodes[0].longest) == (4, 100)


def test_room_is_counted_in_entries():
    batch = pad_rows(lay(DECODES, CHUNKS), 8, DUMMY)
    entries = sum(len(array) for array in batch.arrays)
    exact = StaticBatch(8, entries - 7 * 8 - 1, CPU)
    assert exact.holds(batch)
    exact.load(batch)
    assert not StaticBatch(8, entries - 7 * 8 - 2, CPU).holds(batch)
