"""The tax of chunking: sums of the table's own times, and what they say on a known truth."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkfit.files.errors import UsageError
from chunkfit.planning.chunk_tax import chunk_tax, chunks_of
from chunkfit.planning.sizing import Prompt
from chunkfit.tables import Batch, OutOfDomainError


@given(st.integers(1, 400), st.integers(0, 399), st.integers(1, 500))
def test_chunks_cover_what_is_not_cached_once(tokens, hits, chunk):
    prompt = Prompt(tokens, min(hits, tokens - 1))
    parts = chunks_of(prompt, chunk)
    assert [t for c, u in parts for t in range(u, u + c)] == list(range(prompt.hit_tokens, tokens))
    assert all(c == chunk for c, _ in parts[:-1])


def test_the_tax_is_the_sum_of_the_chunks_against_the_whole(golden):
    tax = chunk_tax(golden, Prompt(2048, 512), 400, 40, 1000)
    parts = [(400, 512), (400, 912), (400, 1312), (336, 1712)]
    alone = sum(golden.expected_ms(Batch.of(0, 0, c, u)) for c, u in parts)
    beside = sum(golden.expected_ms(Batch.of(40, 1000, c, u)) for c, u in parts)
    whole = golden.expected_ms(Batch.of(0, 0, 1536, 512))
    assert (tax.chunks, tax.reread_tokens) == (4, 912 + 1312 + 1712)
    assert tax.alone_ms == pytest.approx(alone)
    assert tax.first_token_ms == pytest.approx(beside)
    assert tax.beside_ms == pytest.approx(beside - 4 * golden.expected_ms(Batch.of(40, 1000)))
    assert tax.tax_share == pytest.approx(alone / whole - 1)
    assert tax.thin_share + tax.reread_share == pytest.approx(tax.tax_share)
    assert tax.beside_share == pytest.approx(tax.beside_ms / whole - 1)


def test_smaller_chunks_cost_more_and_one_chunk_nothing(golden):
    """Chunks below the ridge (178 tokens) stream the weights for too few tokens; beside decodes they ride free."""
    shares = [chunk_tax(golden, Prompt(2048), chunk, 40, 1000) for chunk in (2048, 1024, 256, 64)]
    assert shares[0].tax_share == shares[0].thin_share == shares[0].reread_tokens == 0
    values = [tax.tax_share for tax in shares]
    assert values == sorted(values)
    assert values[-1] > 1  # 32 chunks at 8 ms each against 92 ms
    assert all(tax.beside_share < tax.tax_share for tax in shares)


def test_a_whole_prompt_that_was_not_measured_has_no_tax(golden):
    tax = chunk_tax(golden, Prompt(4000), 512, 40, 1000)
    assert tax.tax_share is None
    assert "limit 2,048" in tax.why
    assert tax.alone_ms > 0
    with pytest.raises(OutOfDomainError):
        chunk_tax(golden, Prompt(4000), 2049, 40, 1000)
    with pytest.raises(UsageError):
        chunk_tax(golden, Prompt(40), 0, 40, 1000)
