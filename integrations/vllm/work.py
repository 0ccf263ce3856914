"""What an iteration of vLLM computes, told from its requests, and how long it took."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ...tables.batch import Batch


class Scheduled(Protocol):
    """What is read of a vLLM request that was just scheduled: `num_computed_tokens` counts this iteration's."""

    num_computed_tokens: int
    num_prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Work:
    """contexts: of every decode token, its own token included. chunks: (chunk_tokens, prefix_tokens).

    A decode that verifies speculative tokens stands as one decode for each of its tokens: these are the rows that
    the iteration computes, and each of them reads its context.
    """

    contexts: list[int]
    chunks: list[tuple[int, int]]

    def batch(self) -> Batch:
        return Batch.with_chunks(self.contexts, self.chunks)


def work_of(
    tokens: Mapping[str, int], speculative: Mapping[str, list[int]], requests: Mapping[str, Scheduled]
) -> Work | None:
    """Of one scheduler output, right after `schedule()`; None where nothing is computed.

    tokens, speculative: `num_scheduled_tokens` and `scheduled_spec_decode_tokens` by request id. A request decodes
    once its prompt is computed; what a preempted one computes again is a chunk.
    """
    if not tokens:
        return None
    contexts: list[int] = []
    chunks: list[tuple[int, int]] = []
    for name, count in tokens.items():
        request = requests[name]
        end = request.num_computed_tokens
        if count == 1 and end > request.num_prompt_tokens:
            contexts.append(end)
        elif end - count >= request.num_prompt_tokens and count <= 1 + len(speculative.get(name, ())):
            contexts.extend(range(end - count + 1, end + 1))
        else:
            chunks.append((count, end - count))
    return Work(contexts, chunks)


class Stopwatch:
    """Wall time of iterations, one or two of which are under way: (what was noted, seconds) of each, in order.

    An iteration begins when it was scheduled or when the one before it was over, whichever is later, and is over
    when its output arrives. Times are seconds of one clock.
    """

    __slots__ = ("_last_update", "_under_way")

    def __init__(self) -> None:
        self._under_way: deque[tuple[Any, float]] = deque()
        self._last_update = 0.0

    def scheduled(self, noted: Any, now: float) -> None:
        """The scheduler is done with an iteration, an empty one too."""
        self._under_way.append((noted, now))

    def updated(self, now: float) -> tuple[Any, float]:
        """The output of the oldest iteration is there."""
        noted, scheduled = self._under_way.popleft()
        seconds = now - max(scheduled, self._last_update)
        self._last_update = now
        return noted, seconds
