"""A device whose time is a formula, with a clock that only its iterations and waiting move: asserted in CI."""

from __future__ import annotations

from collections.abc import Sequence

from ...engine.host_step import SequenceWork
from ...engine.kv_cache import PageAllocator
from ...profiler.devices import Device
from ...tables.fingerprint import Fingerprint
from .executor import batch_of

VOCABULARY = 1000


class VirtualExecutor:
    """`device` tells how long each iteration takes; the tokens are made of position and last token."""

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
