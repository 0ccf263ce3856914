"""The table look-up: one record of whole numbers and plain functions over it.

`CostTable` calls them over lists; the scheduler compiles these very functions over arrays. Nothing here needs NumPy.
Times are whole numbers of 2^-14 ms ("ticks"). Interpolation weights are whole numbers of 1/4096, rounded up, and each
fold rounds up. Rounding up is monotone. So a fold is monotone in both of its ends and in its weight, and the whole
reading is monotone in every coordinate without a tolerance. Python integers and int64 agree on every value below 2^40
ticks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

TICKS_PER_MS = 1 << 14
WEIGHT_BITS = 12
WEIGHT_ONE = 1 << WEIGHT_BITS
ROUND_UP = WEIGHT_ONE - 1
MAX_TICKS = 1 << 40
OUTSIDE = -1  # the answer where the table has none

Corner = tuple[int, int, int, int, int, int]  # strides, then weights: of decodes, context and prefix


class Head(NamedTuple):
    """Where the parts of a table lie among its nodes, its limits and its factors. All are whole numbers.

    Knots: of decodes from 0 to `contexts`, of contexts to `chunks`, of chunks to `prefixes`, of prefixes to
    `knots_end`. Strides: of a mixed base; a prefill base has the last two axes, a decode base the first two.
    ladder, base: the first node of each part, OUTSIDE for a scene that was not measured. Limits: as in `Domain`.
    Factors in 1/4096. unequal, several: on the bound of unequal contexts and of several chunks. factor: on every
    answer (a calibration, a bias, a margin).
    """

    contexts: int
    chunks: int
    prefixes: int
    knots_end: int
    decode_stride: int
    context_stride: int
    prefix_stride: int
    decode_ladder: int
    decode_base: int
    prefill_ladder: int
    prefill_base: int
    mixed_ladder: int
    mixed_base: int
    max_decodes: int
    max_context_tokens: int
    max_chunk_tokens: int
    max_prefix_tokens: int
    max_batch_tokens: int
    kv_tokens: int
    context_length: int
    unequal: int
    several: int
    factor: int


class FlatTable(NamedTuple):
    """One surface of a table (the bound or the expected time) with everything that a look-up reads.

    nodes: the knots of the four axes, then for each scene the ladder, one value per n + c, and the base grid. A base
    has its axes in the order decodes, context, prefix, chunk, so the search walks along chunk.
    head: one `Head`. Compiled code takes nodes as an int64 array and the head as an array of one record: few words to
    pass from function to function.
    """

    nodes: Sequence[int]
    head: Sequence[Head]

    @property
    def factor(self) -> int:
        """On every answer, in 1/4096."""
        return self.head[0].factor

    def with_factor(self, factor: int) -> FlatTable:
        """The same table with another factor on every answer, in 1/4096."""
        return FlatTable(self.nodes, (Head(*self.head[0][:-1], factor),))  # faster than _replace: an engine's loop


def raised(ticks: Any, factor: int) -> Any:
    """Ticks (a number or an int64 array) times a factor of 1/4096, rounded up: non-decreasing in both."""
    return (ticks * factor + ROUND_UP) >> WEIGHT_BITS


def locate(nodes: Sequence[int], first: int, end: int, x: int) -> tuple[int, int]:
    """The knot at or below x among nodes[first:end] (from 0), and the weight of the next one in 1/4096, rounded up.

    Below the first knot its value holds, at and above the last knot that one's (the caller has checked the domain).
    """
    i = bisect_right(nodes, x, first, end)
    if i == first:
        return 0, 0
    if i == end:
        return end - 1 - first, 0
    low = nodes[i - 1]
    return i - 1 - first, -((low - x) * WEIGHT_ONE // (nodes[i] - low))


def fold(nodes: Sequence[int], at: int, corner: Corner) -> int:
    """Base value at one chunk knot: folded over prefix, context and decodes, in this order.

    at: the node below the point on all three axes. Written out, not in two functions: a decision folds seven times.
    """
    dn, dk, du, wn, wk, wu = corner
    a = nodes[at]
    if wu:
        a += ((nodes[at + du] - a) * wu + ROUND_UP) >> WEIGHT_BITS
    if wk:
        b = nodes[at + dk]
        if wu:
            b += ((nodes[at + dk + du] - b) * wu + ROUND_UP) >> WEIGHT_BITS
        a += ((b - a) * wk + ROUND_UP) >> WEIGHT_BITS
    if wn:
        at += dn
        c = nodes[at]
        if wu:
            c += ((nodes[at + du] - c) * wu + ROUND_UP) >> WEIGHT_BITS
        if wk:
            b = nodes[at + dk]
            if wu:
                b += ((nodes[at + dk + du] - b) * wu + ROUND_UP) >> WEIGHT_BITS
            c += ((b - c) * wk + ROUND_UP) >> WEIGHT_BITS
        a += ((c - a) * wn + ROUND_UP) >> WEIGHT_BITS
    return a


def inside(head: Head, n: int, k: int, c: int, u: int) -> bool:
    """Whether the totals lie in the domain, the limits of single requests apart (`Domain.refusal` in whole numbers)."""
    return bool(
        n <= head.max_decodes
        and k <= head.max_context_tokens
        and c <= head.max_chunk_tokens
        and u <= head.max_prefix_tokens
        and n + c <= head.max_batch_tokens
        and n * k + c + u <= head.kv_tokens
    )


def ticks(table: FlatTable, n: int, k: int, c: int, u: int) -> int:
    """Time of a point inside the domain, without factors; OUTSIDE where its scene was not measured."""
    nodes, head = table.nodes, table.head[0]
    if not c:
        if head.decode_base == OUTSIDE:
            return OUTSIDE
        dn = head.chunks - head.contexts
        j, wn = locate(nodes, 0, head.contexts, n)
        m, wk = locate(nodes, head.contexts, head.chunks, k)
        return nodes[head.decode_ladder + n] + fold(nodes, head.decode_base + j * dn + m, (dn, 1, 0, wn, wk, 0))
    du = head.prefix_stride
    h, wc = locate(nodes, head.chunks, head.prefixes, c)
    i, wu = locate(nodes, head.prefixes, head.knots_end, u)
    base = head.mixed_base if n else head.prefill_base
    if base == OUTSIDE:
        return OUTSIDE
    dn, dk = head.decode_stride, head.context_stride
    j = wn = m = wk = 0
    if n:
        j, wn = locate(nodes, 0, head.contexts, n)
        m, wk = locate(nodes, head.contexts, head.chunks, k)
    at, corner = base + j * dn + m * dk + i * du + h, (dn, dk, du, wn, wk, wu)
    value = fold(nodes, at, corner)
    if wc:
        value += ((fold(nodes, at + 1, corner) - value) * wc + ROUND_UP) >> WEIGHT_BITS
    return nodes[(head.mixed_ladder if n else head.prefill_ladder) + n + c] + value


def bound_ticks(table: FlatTable, n: int, k: int, longest: int, c: int, u: int, chunks: int) -> int:
    """Time of one iteration, factors included; OUTSIDE where the table has no answer.

    The batch by its totals: n decodes of mean context k (rounded up) and longest context `longest`, c prompt tokens in
    `chunks` chunks after prefixes of u tokens together. The context length limits single requests: the caller keeps it
    for several chunks.
    """
    if not n and not c:
        return 0
    head = table.head[0]
    if not inside(head, n, k, c, u) or longest > head.context_length or (chunks == 1 and u + c > head.context_length):
        return OUTSIDE
    time = ticks(table, n, k, c, u)
    if time == OUTSIDE:
        return OUTSIDE
    if longest > k and head.unequal > WEIGHT_ONE:
        time = raised(time, head.unequal)
        if inside(head, n, longest, c, u):
            time = min(time, ticks(table, n, longest, c, u))
    if chunks > 1:
        time = raised(time, head.several)
    return int(raised(time, head.factor))


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
    nodes, head = table.nodes, table.head[0]
    top = min(max_chunk, head.max_chunk_tokens, head.max_batch_tokens - n, head.kv_tokens - n * k - u)
    if chunks == 1:
        top = min(top, head.context_length - u)
    if top < 0 or n > head.max_decodes or k > head.max_context_tokens or u > head.max_prefix_tokens:
        return OUTSIDE
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
