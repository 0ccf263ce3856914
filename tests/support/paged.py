"""Random paged batches, and attention over them in float64, written from the definition."""

import math

import torch

from .kernel_device import DEVICE, DTYPES
from .pairwise import pairwise

HEADS = ((4, 1), (7, 1), (2, 2), (8, 2))
HEAD_DIMS = (64, 128)
PAGE_SIZES = (16, 64)
LENGTHS = ("1", "page-1", "page", "page+1", "2page+1", "long")


def attention_cases(**factors):
    """Few cases in which all of the above, the types and `factors` meet each other."""
    return pairwise(heads=HEADS, length=LENGTHS, head_dim=HEAD_DIMS, page=PAGE_SIZES, dtype=DTYPES, **factors)


def tokens_of(length, page):
    """The number that one of LENGTHS names."""
    named = {"1": 1, "page-1": page - 1, "page": page, "page+1": page + 1, "2page+1": 2 * page + 1, "long": 300}
    return named[length]


class Paged:
    """Sequences of `lengths` tokens, the last `tokens` of each being the ones computed now.

    Slots that belong to no sequence hold NaN, and so does every entry past the end of a last page.
    """

    def __init__(self, heads, head_dim, page_size, dtype, lengths, tokens, seed=0):
        heads, kv_heads = heads
        generator = torch.Generator().manual_seed(seed)
        needed = [-(-length // page_size) for length in lengths]
        order = torch.randperm(sum(needed) + 3, generator=generator)
        tables = order[: sum(needed)].split(needed)

        def normal(*shape):
            return torch.randn(shape, generator=generator).to(dtype)

        keys = torch.full((len(order) * page_size, kv_heads * head_dim), math.nan, dtype=dtype)
        values = keys.clone()
        slots = []
        for table, length in zip(tables, lengths, strict=True):
            at = torch.arange(length)
            own = table[at // page_size] * page_size + at % page_size
            keys[own], values[own] = normal(length, kv_heads * head_dim), normal(length, kv_heads * head_dim)
            slots.append(own)
        # Rows lie apart, as they do in the product that makes queries, keys and values together.
        queries = normal(sum(tokens), heads + 2 * kv_heads, head_dim)[:, :heads]
        self.expected = reference(queries, keys, values, slots, tokens)
        self.queries, self.keys, self.values = queries.to(DEVICE), keys.to(DEVICE), values.to(DEVICE)
        self.out = torch.full(self.expected.shape, math.nan, dtype=dtype, device=DEVICE)
        self.lengths = torch.tensor(lengths, device=DEVICE)
        self.first_rows = torch.tensor([0, *tokens], device=DEVICE).cumsum(0)
        self.page_starts = torch.tensor([0, *needed[:-1]], device=DEVICE).cumsum(0)
        # What lies past the end of the tables must not be followed.
        self.pages = torch.cat((*tables, torch.tensor([1 << 40]))).to(DEVICE)


def reference(queries, keys, values, slots, tokens):
    """(rows, heads, head_dim): each new token against every token of its sequence up to itself."""
    _, heads, head_dim = queries.shape
    shared = heads // (keys.shape[1] // head_dim)
    results = []
    for own, rows in zip(slots, queries.double().split(tokens), strict=True):
        own_keys, own_values = (pool[own].double().unflatten(1, (-1, head_dim)) for pool in (keys, values))
        for row, query in enumerate(rows):
            seen = len(own) - len(rows) + row + 1
            for head in range(heads):
                scores = own_keys[:seen, head // shared] @ query[head] / math.sqrt(head_dim)
                results.append(scores.softmax(0) @ own_values[:seen, head // shared])
    return torch.stack(results).view(queries.shape)
