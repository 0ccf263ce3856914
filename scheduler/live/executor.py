"""What a live run needs of whatever computes: iterations, pages, and the clock that both are told by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...engine.host_step import SequenceWork
from ...engine.kv_cache import PageAllocator
from ...tables.batch import Batch
from ...tables.fingerprint import Fingerprint


class Executor(Protocol):
    """An engine and a clock.

    real_time: the clock goes on while the scheduler thinks, so that the decision is part of every time measured.
    """

    real_time: bool

    @property
    def fingerprint(self) -> Fingerprint: ...

    @property
    def allocator(self) -> PageAllocator: ...

    @property
    def vocab_size(self) -> int: ...

    def restart(self) -> None:
        """The clock reads 0."""

    def now_ms(self) -> float: ...

    def wait(self, until_ms: float) -> None:
        """Nothing to compute before then."""

    def iterate(self, decodes: Sequence[SequenceWork], chunks: Sequence[SequenceWork]) -> list[int]:
        """One iteration: the next token of every sequence, decodes first. Raises DeviceMemoryError."""

    def joules(self) -> float | None:
        """Energy that the device has used since some moment; None where it does not say."""


def batch_of(decodes: Sequence[SequenceWork], chunks: Sequence[SequenceWork]) -> Batch:
    """What a table is asked of that work."""
    return Batch.with_chunks(
        [work.start + 1 for work in decodes], [(len(work.token_ids), work.start) for work in chunks]
    )
