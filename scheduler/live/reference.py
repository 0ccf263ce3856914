"""The reference engine as it was profiled, and the host's clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ...engine.engine import Engine
from ...engine.facts import fingerprint
from ...engine.host_step import SequenceWork
from ...engine.kv_cache import PageAllocator
from ...tables.fingerprint import Fingerprint


class EngineExecutor:
    """energy: joules that the device has used, None where it does not say.

    Pages of a cached prefix hold whatever the pool was filled with: the time is right, the text is not.
    """

    real_time = True

    def __init__(self, engine: Engine, energy: Callable[[], float | None]) -> None:
        self._engine = engine
        self._start = time.perf_counter()
        self._fingerprint = fingerprint(
            engine.config, str(engine.device), engine.dtype, engine.attention, engine.capture_sizes
        )
        self.joules = energy

    @property
    def fingerprint(self) -> Fingerprint:
        return self._fingerprint

    @property
    def allocator(self) -> PageAllocator:
        return self._engine.allocator

    @property
    def vocab_size(self) -> int:
        return self._engine.config.vocab_size

    def restart(self) -> None:
        self._start = time.perf_counter()

    def now_ms(self) -> float:
        return (time.perf_counter() - self._start) * 1e3

    def wait(self, until_ms: float) -> None:
        time.sleep(max(0.0, until_ms - self.now_ms()) / 1e3)

    def iterate(self, decodes: Sequence[SequenceWork], chunks: Sequence[SequenceWork]) -> list[int]:
        return self._engine.iterate(decodes, chunks)
