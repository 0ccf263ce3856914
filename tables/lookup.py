"""The table look-up: plain functions over flat integer sequences.

Lists when Python calls them, arrays when a compiler does: nothing here allocates or knows a class.
Values are integers of 2^-14 ms ("ticks"), interpolation weights integers of 1/4096 rounded up, and
each fold rounds up. Rounding up is monotone, so is a fold in both of its ends and in its weight;
therefore the composition is monotone in every coordinate with no tolerance, and Python integers,
int64 and float64 agree on every value below 2^40 ticks.

Axes of a mixed base, slowest first: decodes n, context k, prefix u, chunk c (a search walks along c).
A corner that a point does not need has stride 0 and weight 0, which also serves the last knot and
axes of one knot.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

TICKS_PER_MS = 1 << 14
WEIGHT_BITS = 12
WEIGHT_ONE = 1 << WEIGHT_BITS
ROUND_UP = WEIGHT_ONE - 1
MAX_TICKS = 1 << 40


def locate(knots: Sequence[int], x: int) -> tuple[int, int]:
    """(index of the knot at or below x, weight of the next one in 1/4096, rounded up).

    Below the first knot the value of the first knot holds ("clamp up"); at and above the last knot the
    last holds (the caller has checked the domain).
    """
    i = bisect_right(knots, x) - 1
    if i < 0:
        return 0, 0
    if i + 1 >= len(knots):
        return len(knots) - 1, 0
    low = knots[i]
    return i, -((low - x) * WEIGHT_ONE // (knots[i + 1] - low))


def fold_ku(base: Sequence[int], at: int, dk: int, du: int, wk: int, wu: int) -> int:
    """Value at one (n, c) node: folded over prefix, then over context."""
    a = base[at]
    if wu:
        a += ((base[at + du] - a) * wu + ROUND_UP) >> WEIGHT_BITS
    if wk:
        at += dk
        b = base[at]
        if wu:
            b += ((base[at + du] - b) * wu + ROUND_UP) >> WEIGHT_BITS
        a += ((b - a) * wk + ROUND_UP) >> WEIGHT_BITS
    return a


def fold_nku(base: Sequence[int], at: int, dn: int, dk: int, du: int, wn: int, wk: int, wu: int) -> int:
    """Value at one chunk knot: folded over prefix, context and decodes, in this order."""
    a = fold_ku(base, at, dk, du, wk, wu)
    if wn:
        b = fold_ku(base, at + dn, dk, du, wk, wu)
        a += ((b - a) * wn + ROUND_UP) >> WEIGHT_BITS
    return a


def largest_fitting(
    ladder: Sequence[int],
    base: Sequence[int],
    chunk_knots: Sequence[int],
    n: int,
    at: int,
    dn: int,
    dk: int,
    du: int,
    wn: int,
    wk: int,
    wu: int,
    limit: int,
    top: int,
    align: int,
    whole: int,
) -> int:
    """Largest c in [1, top] that is a multiple of `align`, or `whole`, with U(n, k, c, u) <= limit; else 0.

    ladder[n + c] and base[at + ...] are ticks; `at` is the flat index of the state's corner at the first
    chunk knot, which is 1. `whole` is top itself or 0 (no such candidate). Exact, since U never falls
    along c: the chunk knots are bisected first (a fold each), then the multiples inside one segment.
    """
    last = bisect_right(chunk_knots, top) - 1
    below = -1  # largest knot index known to fit
    above = last + 1  # smallest known not to fit, or past top
    v_below = v_above = -1  # their folded base values
    while above - below > 1:
        j = (below + above) >> 1
        v = fold_nku(base, at + j, dn, dk, du, wn, wk, wu)
        if ladder[n + chunk_knots[j]] + v <= limit:
            below = j
            v_below = v
        else:
            above = j
            v_above = v
    if below < 0:
        return 0
    start = chunk_knots[below]
    if start == top:
        return top if whole else top - top % align
    if v_above < 0:
        v_above = fold_nku(base, at + above, dn, dk, du, wn, wk, wu)
    rise = v_above - v_below
    span = chunk_knots[above] - start
    high = top
    if below == last:
        if whole:
            w = -((start - top) * WEIGHT_ONE // span)
            if ladder[n + top] + v_below + ((rise * w + ROUND_UP) >> WEIGHT_BITS) <= limit:
                return top
    else:
        high = chunk_knots[above] - 1
    low = start // align
    high //= align
    while low < high:
        m = (low + high + 1) >> 1
        c = m * align
        w = -((start - c) * WEIGHT_ONE // span)
        if ladder[n + c] + v_below + ((rise * w + ROUND_UP) >> WEIGHT_BITS) <= limit:
            low = m
        else:
            high = m - 1
    return low * align
