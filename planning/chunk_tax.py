"""What chunking a prompt costs: its chunks summed against the whole prompt in one iteration.

All times are the table's expected ones. The table is ladder(n + c) + base(n, k, c, u). The ladder is the work that
depends on the number of rows alone, so its share of the tax is weights streamed once per chunk: thinner matrix
products. The base is attention, KV reads and what a request or an iteration costs; the attention work of the
prompt itself is the same either way and cancels, so its share is keys and values read again, and overhead per chunk.
A fit may shift a constant or a slope from one to the other: the sum is firm, the split is a reading.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..files.errors import UsageError
from ..tables.batch import Scene
from ..tables.cost_table import CostTable
from ..tables.grid import Points, to_ms
from .sizing import Prompt


@dataclass(frozen=True, slots=True)
class ChunkTax:
    """One prompt in chunks of at most `chunk_tokens`. Shares are of whole_ms; None where the table does not cover
    the whole prompt in one chunk (`why` says which limit).

    reread_tokens: KV tokens that later chunks read again. alone_ms: the chunks in iterations of their own.
    thin_share + reread_share = tax_share = alone_ms / whole_ms - 1. beside_ms: what they add to iterations that
    decode anyway; beside_share = beside_ms / whole_ms - 1, often below 0: those iterations stream the weights
    in any case. first_token_ms: the sum of the iterations beside the decodes, the time to the first token of a
    prompt that waits for nothing.
    """

    prompt: Prompt
    chunk_tokens: int
    chunks: int
    reread_tokens: int
    alone_ms: float
    beside_ms: float
    first_token_ms: float
    whole_ms: float | None
    tax_share: float | None
    thin_share: float | None
    reread_share: float | None
    beside_share: float | None
    why: str | None


def chunks_of(prompt: Prompt, chunk_tokens: int) -> list[tuple[int, int]]:
    """(c, u) of each chunk in turn.

    >>> chunks_of(Prompt(1000, 400), 256)
    [(256, 400), (256, 656), (88, 912)]
    """
    if chunk_tokens < 1:
        raise UsageError(f"chunks of {chunk_tokens} tokens; expected at least 1")
    starts = range(prompt.hit_tokens, prompt.tokens, chunk_tokens)
    return [(min(chunk_tokens, prompt.tokens - u), u) for u in starts]


def chunk_tax(table: CostTable, prompt: Prompt, chunk_tokens: int, decodes: int, context_tokens: int) -> ChunkTax:
    """The tax of `prompt` in chunks of `chunk_tokens` beside `decodes` decodes of mean context `context_tokens`.

    Raises OutOfDomainError when a chunk lies outside the domain.
    """
    parts = chunks_of(prompt, chunk_tokens)
    alone = np.asarray([(0, 0, c, u) for c, u in parts], dtype=np.int64)
    beside = alone + np.asarray([decodes, context_tokens, 0, 0])
    alone_ms = float(table.read(alone)[0].sum())
    first_token_ms = float(table.read(beside)[0].sum())
    decodes_ms = float(table.read(np.asarray([[decodes, context_tokens, 0, 0]]))[0][0])
    beside_ms = first_token_ms - len(parts) * decodes_ms
    reread = sum(u for _, u in parts) - prompt.hit_tokens
    whole = np.asarray([(0, 0, prompt.suffix_tokens, prompt.hit_tokens)], dtype=np.int64)
    why = table.domain.refusal(*whole[0].tolist())
    if why is None and not table.arrays.answers(whole)[0]:
        why = "no prefill with as much work was measured"
    if why is not None:
        unknown = (None,) * 5
        return ChunkTax(
            prompt, chunk_tokens, len(parts), reread, alone_ms, beside_ms, first_token_ms, *unknown, f"whole: {why}"
        )
    whole_ms = float(table.read(whole)[0][0])
    thin_ms = _ladder_ms(table, alone) - _ladder_ms(table, whole)
    return ChunkTax(
        prompt=prompt,
        chunk_tokens=chunk_tokens,
        chunks=len(parts),
        reread_tokens=reread,
        alone_ms=alone_ms,
        beside_ms=beside_ms,
        first_token_ms=first_token_ms,
        whole_ms=whole_ms,
        tax_share=alone_ms / whole_ms - 1,
        thin_share=thin_ms / whole_ms,
        reread_share=(alone_ms - whole_ms - thin_ms) / whole_ms,
        beside_share=beside_ms / whole_ms - 1,
        why=None,
    )


def _ladder_ms(table: CostTable, points: Points) -> float:
    """The expected ladder of prefill batches, summed over `points`."""
    totals = points[:, 2]
    dense = table.arrays.ladders[Scene.PREFILL].dense(table.arrays.expected[Scene.PREFILL].ladder, int(totals.max()))
    return float(to_ms(dense[totals]).sum())
