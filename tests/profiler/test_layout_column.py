"""Layouts: one text for a batch, one batch for a text, everything else refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkfit.profiler.columns import batch_of, layout_of
from chunkfit.tables.batch import Batch


def test_the_usual_batch_has_no_text():
    for point in ((3, 100, 0, 0), (0, 0, 64, 5), (3, 100, 64, 5)):
        assert layout_of(Batch.of(*point)) == ""
        assert batch_of("", *point) == Batch.of(*point)


@given(
    st.lists(st.sampled_from([1, 7, 256, 4096]), max_size=40),
    st.lists(st.tuples(st.integers(1, 99), st.integers(0, 99)), max_size=4),
)
def test_a_text_gives_the_batch_back(contexts, chunks):
    if not contexts and not chunks:
        return
    if contexts:
        contexts[0] += -sum(contexts) % len(contexts)  # a mean without a fraction, as in a plan
    batch = Batch.with_chunks(contexts, chunks)
    text = layout_of(batch)
    assert batch_of(text, *batch.point()) == batch
    assert len(text) <= 5 * len(contexts) + 6 * len(chunks) + 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("15,1", "expected contexts|chunks such as"),
        ("15,1|0@3", "expected contexts|chunks"),
        ("015,1|", "expected contexts|chunks"),
        ("15,1|,", "expected contexts|chunks"),
        ("1000000000x1|", "more than n = 2 decodes"),
        ("14,1|", "is not of n 2, k 8, c 0, u 0"),
        ("15,1|3@0", "is not of n 2"),
        ("8,8|", "expected '', the one way to write it"),
        ("1x15,1|", "expected '15,1|', the one way"),
    ],
)
def test_other_texts_are_refused(text, message):
    with pytest.raises(ValueError) as caught:
        batch_of(text, 2, 8, 0, 0)
    assert message in str(caught.value)
