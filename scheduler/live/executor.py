"""The executor of a live run: the protocol of an engine with a clock, and the synthetic device on a virtual clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...engine.host_step import SequenceWork
from ...engine.kv_cache import PageAllocator
from ...profiler.devices import Device
from ...tables.batch import Batch
from ...tables.fingerprint import Fingerprint


class Executor(Protocol):
    """An engine and its clock, as the serving loop uses them.

    Attributes:
        real_time: True if the clock runs while the scheduler decides. Measured times then include the decision.
        fingerprint: Identity of device, model and engine. It must agree with the table's.
        allocator: The KV pages that sequences may use.
        vocab_size: Token ids are 0 to vocab_size - 1.
    """

    real_time: bool

    @property
    def fingerprint(self) -> Fingerprint: ...

    @property
    def allocator(self) -> PageAllocator: ...

    @property
    def vocab_size(self) -> int: ...

    def restart(self) -> None:
        """Set the clock to 0."""

    def now_ms(self) -> float:
        """Read the clock.

        Returns:
            Milliseconds since the last restart.
        """
        ...

    def wait(self, until_ms: float) -> None:
        """Idle until the clock reads `until_ms`.

        Args:
            until_ms: Milliseconds since the last restart. A time in the past returns at once.
        """

    def iterate(self, decodes: Sequence[SequenceWork], chunks: Sequence[SequenceWork]) -> list[int]:
        """Run one iteration.

        Args:
            decodes: Sequences that compute one token each.
            chunks: Sequences that compute a chunk of their prompt.

        Returns:
            The next token of every sequence, decodes first.

        Raises:
            DeviceMemoryError: The device has too little memory for the batch.
        """
        ...

    def joules(self) -> float | None:
        """Read the energy meter.

        Returns:
            Energy in joules since a fixed moment, or None if the device does not report it.
        """
        ...


def batch_of(decodes: Sequence[SequenceWork], chunks: Sequence[SequenceWork]) -> Batch:
    """The batch of that work, as a table reads it."""
    return Batch.with_chunks(
        [work.start + 1 for work in decodes], [(len(work.token_ids), work.start) for work in chunks]
    )


VOCABULARY = 1000


class VirtualExecutor:
    """The formula `device` gives the time of each iteration. Only iterations and waiting move the clock.

    A token is a function of its position and of the token before it.
    """

    real_time = False
    vocab_size = VOCABULARY

    def __init__(self, device: Device, pages: int) -> None:
        self._device = device
        self._now_ms = 0.0
        self.allocator = PageAllocator(pages)

    @property
    def fingerprint(self) -> Fingerprint:
        return self._device.fingerprint

    def restart(self) -> None:
        self._now_ms = 0.0

    def now_ms(self) -> float:
        return self._now_ms

    def wait(self, until_ms: float) -> None:
        self._now_ms = max(self._now_ms, until_ms)

    def iterate(self, decodes: Sequence[SequenceWork], chunks: Sequence[SequenceWork]) -> list[int]:
        self._device.prepare(batch_of(decodes, chunks))
        self._now_ms += self._device.run().latency_ms
        return [
            (int(work.token_ids[-1]) + work.start + len(work.token_ids)) % VOCABULARY for work in (*decodes, *chunks)
        ]

    def joules(self) -> float | None:
        return None
