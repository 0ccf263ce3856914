"""The table look-up: one record of whole numbers and plain functions over it.

`CostTable` calls them over lists; the scheduler compiles these very functions over arrays. Nothing here needs NumPy.
`largest_chunk.py` searches over the same record.
Times are whole numbers of 2^-14 ms ("ticks"). Interpolation weights are whole numbers of 1/4096, rounded up, and each
fold rounds up. Rounding up is monotone. So a fold is monotone in both of its ends and in its weight, and the whole
reading is monotone in every coordinate without a tolerance. Python integers and int64 agree on every value below 2^40
ticks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

TICKS_PER_MS = 1 << 14
WEIGHT_BITS = 12
WEIGHT_ONE = 1 << WEIGHT_BITS
ROUND_UP = WEIGHT_ONE - 1
MAX_TICKS = 1 << 40
OUTSIDE = -1  # the answer where the table has none
MEASURED = -2  # of a box in place of the boxes above it: it was measured itself

Corner = tuple[int, int, int, int, int, int]  # strides, then weights: of decodes, context and prefix


class Head(NamedTuple):
    """Where the parts of a table lie among its nodes, its limits and its factors. All are whole numbers.

    Knots: of decodes from 0 to `contexts`, of contexts to `chunks`, of chunks to `prefixes`, of prefixes to
    `knots_end`. Strides: of a mixed base; a prefill base has the last two axes, a decode base the first two.
    ladder, base: the first node of each part, OUTSIDE for a scene that was not measured. Limits: as in `Domain`.
    support: the first of the nine nodes that say where the parts of the support lie (`support_nodes`), OUTSIDE where
    every batch of the domain was measured.
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
    support: int
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


def surface_ticks(table: FlatTable, n: int, k: int, c: int, u: int) -> int:
    """What the surface says of a point inside the domain, measured or not; OUTSIDE where the scene has none."""
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


def boxes_above(nodes: Sequence[int], support: int, n: int, k: int, c: int, u: int) -> int:
    """MEASURED for a point in a measured box; else the node where the measured boxes above it are listed, or OUTSIDE.

    support: the first of the nine nodes of `Support.nodes`.
    """
    ns, ks, cs = nodes[support], nodes[support + 1], nodes[support + 2]
    if not c:
        box = (bisect_left(nodes, n, ns, ks) - ns) * (cs - ks) + bisect_left(nodes, k, ks, cs) - ks
        return nodes[nodes[support + 5] + box]
    us, end = nodes[support + 3], nodes[support + 4]
    box = (bisect_left(nodes, c, cs, us) - cs) * (end - us) + bisect_left(nodes, u, us, end) - us
    if not n:
        return nodes[nodes[support + 6] + box]
    row = (bisect_left(nodes, n, ns, ks) - ns) * (cs - ks) + bisect_left(nodes, k, ks, cs) - ks
    return nodes[nodes[support + 7] + row * nodes[support + 8] + box]


def ticks(table: FlatTable, n: int, k: int, c: int, u: int) -> int:
    """Time of a point inside the domain, without factors; OUTSIDE where nothing was measured at or above it.

    Where the point was not measured: the least time of the measured batches with at least as much work in every
    coordinate. Since the surface never falls, of each measured box that is the batch nearest to the point. A box whose
    nearest batch lies outside the domain holds none above the point.
    """
    nodes, head = table.nodes, table.head[0]
    if head.support == OUTSIDE:
        return surface_ticks(table, n, k, c, u)
    at = boxes_above(nodes, head.support, n, k, c, u)
    if at == MEASURED:
        return surface_ticks(table, n, k, c, u)
    least = OUTSIDE
    if at != OUTSIDE:
        for box in range(at + 1, at + 1 + 4 * nodes[at], 4):
            n_up, k_up, c_up, u_up = (
                max(n, nodes[box]),
                max(k, nodes[box + 1]),
                max(c, nodes[box + 2]),
                max(u, nodes[box + 3]),
            )
            if inside(head, n_up, k_up, c_up, u_up):
                time = surface_ticks(table, n_up, k_up, c_up, u_up)
                if least == OUTSIDE or time < least:
                    least = time
    return least


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
            all_longest = ticks(table, n, longest, c, u)
            if all_longest != OUTSIDE:
                time = min(time, all_longest)
    if chunks > 1:
        time = raised(time, head.several)
    return int(raised(time, head.factor))
