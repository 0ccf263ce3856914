"""The largest chunk of a table, asked by position: tests ask it of many states."""


def chunk_of(table, n=40, k=1000, u=0, budget_ms=25.0, max_chunk=None, align=1, longest_context=None, chunks=1):
    return table.largest_chunk(
        decodes=n,
        context_tokens=k,
        prefix_tokens=u,
        budget_ms=budget_ms,
        max_chunk=max_chunk,
        align=align,
        longest_context=longest_context,
        chunks=chunks,
    )
