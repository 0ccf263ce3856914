"""Sequences of a batch, on pages in no order, with random tokens."""

import numpy as np

from chunkfit.engine import SequenceWork
from chunkfit.engine.kv_cache import pages_for


def batch(decodes, chunks, *, vocab_size, pages, seed=0):
    """Tokens before each decode, (prefix, tokens) of each chunk, pages of the pool -> what an engine takes."""
    rng = np.random.default_rng(seed)
    free = rng.permutation(pages).tolist()

    def work(start, count):
        table = [free.pop() for _ in range(pages_for(start + count))]
        return SequenceWork(rng.integers(0, vocab_size, count).tolist(), start, table)

    return [work(start, 1) for start in decodes], [work(prefix, count) for prefix, count in chunks]
