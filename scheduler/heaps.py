"""Binary heaps in int64 arrays, the smallest number at the root. They sort prefills and keep a request's largest gaps.

The 99th percentile of a request's gaps is their nearest rank: the smallest gap that at least 99% of them do not exceed,
number m // 100 + 1 from the top of m. A request of at most m gaps keeps its m // 100 + 1 largest in a heap.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .compiled import compiled


@compiled
def sink(heap: Any, size: int, at: int, value: int) -> None:
    """Puts `value` at `at` or below it, in a heap of `size` numbers whose place `at` is free."""
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = value


def heap_starts(output_tokens: NDArray[np.int32]) -> NDArray[np.int64]:
    """Where each request's heap begins in one array, and where the last ends: shape (requests + 1,)."""
    starts = np.zeros(len(output_tokens) + 1, np.int64)
    np.cumsum(np.maximum(output_tokens.astype(np.int64) - 1, 0) // 100 + 1, out=starts[1:])
    return starts


@compiled
def keep_gap(heap: NDArray[np.int64], gap: int) -> int:
    """Puts a gap among the largest in place of the smallest of them. Returns the smallest that is kept."""
    if gap <= heap[0]:
        return int(heap[0])
    sink(heap, len(heap), 0, gap)
    return int(heap[0])


@compiled
def p99_gap(heap: NDArray[np.int64], gaps: int) -> int:
    """The 99th percentile of `gaps` gaps, 1 or more. Sorts the heap."""
    heap.sort()
    return int(heap[len(heap) - (gaps // 100 + 1)])
