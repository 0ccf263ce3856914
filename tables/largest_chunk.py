"""The largest chunk whose iteration stays within a limit: an exact search over a table's record.

As in `lookup.py`: `CostTable` calls these functions over lists; the scheduler compiles them over arrays.
"""

from __future__ import annotations

from bisect import bisect_right

from .lookup import (
    MEASURED,
    OUTSIDE,
    ROUND_UP,
    WEIGHT_BITS,
    WEIGHT_ONE,
    Corner,
    FlatTable,
    boxes_above,
    fold,
    locate,
    ticks,
)


def largest_chunk(
    table: FlatTable, n: int, k: int, longest: int, u: int, limit: int, max_chunk: int, align: int, chunks: int
) -> int:
    """Largest c with `bound_ticks` <= limit, for `chunks` chunks together; OUTSIDE where the table has no answer.

    Candidates are the multiples of align and max_chunk itself. 0 where the decodes alone are above the limit.
    Exact: raised(U, factor) <= limit if and only if U <= limit / factor rounded down, so the factors divide the limit.
    """
    head = table.head[0]
    if longest > k and longest > head.context_length:
        return OUTSIDE
    limit = limit * WEIGHT_ONE // head.factor
    if chunks > 1:
        limit = limit * WEIGHT_ONE // head.several
    if longest <= k or head.unequal == WEIGHT_ONE:
        return largest_of_equal(table, n, k, u, limit, max_chunk, align, chunks)
    tokens = largest_of_equal(table, n, k, u, limit * WEIGHT_ONE // head.unequal, max_chunk, align, chunks)
    if longest <= head.max_context_tokens and n * longest + u <= head.kv_tokens:
        tokens = max(tokens, largest_of_equal(table, n, longest, u, limit, max_chunk, align, chunks))
    return tokens


def largest_of_equal(
    table: FlatTable, n: int, k: int, u: int, limit: int, max_chunk: int, align: int, chunks: int
) -> int:
    """`largest_chunk` of equal contexts k, with a limit that the factors have divided."""
    head = table.head[0]
    top = min(max_chunk, head.max_chunk_tokens, head.max_batch_tokens - n, head.kv_tokens - n * k - u)
    if chunks == 1:
        top = min(top, head.context_length - u)
    if top < 0 or n > head.max_decodes or k > head.max_context_tokens or u > head.max_prefix_tokens:
        return OUTSIDE
    if head.support == OUTSIDE:
        return largest_on_surface(table, n, k, u, limit, top, max_chunk, align)
    if n:
        alone = ticks(table, n, k, 0, 0)
        if alone == OUTSIDE:
            return OUTSIDE
        if alone > limit:
            return 0
    if not top:
        return 0
    tokens = largest_on_surface(table, n, k, u, limit, top, max_chunk, align)
    if tokens > 0 and boxes_above(table.nodes, head.support, n, k, tokens, u) == MEASURED:
        return tokens
    # No time is below the surface's. So a chunk in a measured box is the largest, and no chunk above it fits.
    return largest_by_order(table, n, k, u, limit, top if tokens == OUTSIDE else tokens, max_chunk, align)


def largest_by_order(table: FlatTable, n: int, k: int, u: int, limit: int, top: int, max_chunk: int, align: int) -> int:
    """Largest c up to `top` with `ticks` <= limit, by bisection, since `ticks` never falls along c.

    0 where none fits; OUTSIDE where there are no decodes and nothing was measured at or above the smallest chunk.
    """
    if not n and ticks(table, n, k, 1, u) == OUTSIDE:
        return OUTSIDE
    if top == max_chunk and OUTSIDE != ticks(table, n, k, top, u) <= limit:
        return top
    low, high = 0, top // align
    while low < high:
        middle = (low + high + 1) >> 1
        if OUTSIDE != ticks(table, n, k, middle * align, u) <= limit:
            low = middle
        else:
            high = middle - 1
    return low * align


def largest_on_surface(
    table: FlatTable, n: int, k: int, u: int, limit: int, top: int, max_chunk: int, align: int
) -> int:
    """Largest c up to `top` with `surface_ticks` <= limit, for a state inside the domain; OUTSIDE without a surface."""
    nodes, head = table.nodes, table.head[0]
    du = head.prefix_stride
    if n:
        if head.decode_base == OUTSIDE:
            return OUTSIDE
        dn = head.chunks - head.contexts
        j, wn = locate(nodes, 0, head.contexts, n)
        m, wk = locate(nodes, head.contexts, head.chunks, k)
        alone = fold(nodes, head.decode_base + j * dn + m, (dn, 1, 0, wn, wk, 0))
        if nodes[head.decode_ladder + n] + alone > limit or not top:
            return 0
        if head.mixed_base == OUTSIDE:
            return OUTSIDE
        dn, dk = head.decode_stride, head.context_stride
        i, wu = locate(nodes, head.prefixes, head.knots_end, u)
        ladder, at = head.mixed_ladder + n, head.mixed_base + j * dn + m * dk + i * du
        corner = (dn, dk, du, wn, wk, wu)
    else:
        if not top:
            return 0
        if head.prefill_base == OUTSIDE:
            return OUTSIDE
        i, wu = locate(nodes, head.prefixes, head.knots_end, u)
        ladder, at, corner = head.prefill_ladder, head.prefill_base + i * du, (0, 0, du, 0, 0, wu)
    return largest_fitting(table, ladder, at, corner, limit, top, align, top == max_chunk)


def largest_fitting(
    table: FlatTable, ladder: int, at: int, corner: Corner, limit: int, top: int, align: int, unaligned_top: bool
) -> int:
    """Largest c in [1, top] that is a multiple of `align` (or `top` itself, if unaligned_top) within `limit`; else 0.

    ladder: the node of n + 0. at: the node of the state at the first chunk knot, which is 1. Exact, since the time
    never falls along c: the chunk knots are bisected first (a fold each), then the multiples inside one segment.
    """
    nodes, first = table.nodes, table.head[0].chunks
    at -= first  # now at + j is the node at knot j, counted as the nodes are
    last = bisect_right(nodes, top, first, table.head[0].prefixes) - 1
    below = first - 1  # largest knot known to fit
    above = last + 1  # smallest known not to fit, or past top
    v_below = v_above = -1  # their folded base values
    while above - below > 1:
        j = (below + above) >> 1
        v = fold(nodes, at + j, corner)
        if nodes[ladder + nodes[j]] + v <= limit:
            below, v_below = j, v
        else:
            above, v_above = j, v
    if below < first:
        return 0
    start = nodes[below]
    if start == top:
        return top if unaligned_top else top - top % align
    if v_above < 0:
        v_above = fold(nodes, at + above, corner)
    rise = v_above - v_below
    span = nodes[above] - start
    high = top
    if below == last:
        if unaligned_top:
            w = -((start - top) * WEIGHT_ONE // span)
            if nodes[ladder + top] + v_below + ((rise * w + ROUND_UP) >> WEIGHT_BITS) <= limit:
                return top
    else:
        high = nodes[above] - 1
    low = start // align
    high //= align
    while low < high:
        m = (low + high + 1) >> 1
        c = m * align
        w = -((start - c) * WEIGHT_ONE // span)
        if nodes[ladder + c] + v_below + ((rise * w + ROUND_UP) >> WEIGHT_BITS) <= limit:
            low = m
        else:
            high = m - 1
    return low * align
