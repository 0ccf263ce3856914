"""One step of a binary heap in an int64 array, the smallest at the root."""

from __future__ import annotations

from typing import Any

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
