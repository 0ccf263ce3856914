"""How the totals of a batch are spread over its requests, as a short text that a table column can hold.

`4096,31x256|128@0,64@512`: contexts of the decodes, then chunks as tokens@prefix; `31x256` are 31 decodes of
256. The empty text stands for the usual batch: equal contexts and at most one chunk.
"""

from __future__ import annotations

import re
from itertools import groupby

from ..tables.batch import Batch

_NUMBER = r"[1-9][0-9]*"
_CONTEXT = rf"(?:{_NUMBER}x)?{_NUMBER}"
_CHUNK = rf"{_NUMBER}@(?:0|{_NUMBER})"
_LAYOUT = re.compile(rf"((?:{_CONTEXT}(?:,{_CONTEXT})*)?)\|((?:{_CHUNK}(?:,{_CHUNK})*)?)")


def layout_of(batch: Batch) -> str:
    """The text of a batch; empty where its totals say all of it.

    >>> layout_of(Batch.with_chunks([4096, 256, 256], [(128, 0)]))
    '4096,2x256|128@0'
    """
    if batch == Batch.of(*batch.point()):
        return ""
    runs = [(context, len(list(run))) for context, run in groupby(batch.decode_contexts)]
    contexts = ",".join(str(context) if count == 1 else f"{count}x{context}" for context, count in runs)
    return contexts + "|" + ",".join(f"{chunk.chunk_tokens}@{chunk.prefix_tokens}" for chunk in batch.chunks)


def batch_of(layout: str, n: int, k: int, c: int, u: int) -> Batch:
    """The batch of a layout, whose totals must be the n decodes of mean context k, c and u given.

    Raises ValueError for a text that `layout_of` does not write, or one of other totals.
    """
    if not layout:
        return Batch.of(n, k, c, u)
    found = _LAYOUT.fullmatch(layout)
    if found is None:
        raise ValueError(f"layout {layout!r}; expected contexts|chunks such as 4096,31x256|128@0,64@512")
    contexts: list[int] = []
    for text in filter(None, found[1].split(",")):
        count, _, context = text.rpartition("x")
        if int(count or 1) > n:
            raise ValueError(f"layout {layout!r} has more than n = {n} decodes")
        contexts += [int(context)] * int(count or 1)
    chunks = [(int(tokens), int(prefix)) for tokens, _, prefix in (t.partition("@") for t in found[2].split(",") if t)]
    if (len(contexts), sum(contexts), sum(t for t, _ in chunks), sum(p for _, p in chunks)) != (n, n * k, c, u):
        raise ValueError(f"layout {layout!r} is not of n {n}, k {k}, c {c}, u {u}; expected the same totals")
    batch = Batch.with_chunks(contexts, chunks)
    if layout_of(batch) != layout:
        raise ValueError(f"layout {layout!r}; expected {layout_of(batch)!r}, the one way to write it")
    return batch
