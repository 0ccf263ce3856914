"""Open the device of a table to serve: the reference engine on the host's clock, or the synthetic device."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ...engine.engine import Engine
from ...engine.facts import fingerprint
from ...engine.host_step import SequenceWork
from ...engine.kv_cache import PageAllocator
from ...files.errors import FingerprintMismatchError
from ...profiler.devices import DeviceSpec, open_device
from ...profiler.devices.nvml import energy_meter
from ...profiler.devices.torch_device import open_engine, uuid_of
from ...tables.cost_table import CostTable
from ...tables.fingerprint import Fingerprint
from ..cost import from_table
from ..serving_state import Limits
from .executor import Executor, VirtualExecutor

SESSION = "live"  # a session of its own: on the synthetic device with its own noise
DEVICES = ("cpu", "cuda", "synthetic")


def open_executor(table: CostTable, seed: int, *, model: str | None = None, attention: str | None = None) -> Executor:
    """With room for the table's domain. Unless given, the model is the table's own and attention the engine's choice.

    Raises FingerprintMismatchError for a table of no device of ours, else as `profiler.devices.open_device`.
    """
    kind, name = table.fingerprint.device_kind, model or table.fingerprint.model_name or "tiny"
    if kind not in DEVICES:
        raise FingerprintMismatchError(
            f"the table was measured on {table.fingerprint.title()}, device kind {kind or 'unknown'}; expected one of "
            f"{', '.join(DEVICES)}: profile the device that is to serve"
        )
    if kind == "synthetic":
        device = open_device(kind, name, table.domain, seed, SESSION, attention=attention)
        return VirtualExecutor(device, table.domain.kv_tokens // 16)
    engine = open_engine(kind, DeviceSpec(name, table.domain, seed, SESSION, attention))
    return EngineExecutor(engine, energy_meter(uuid_of(engine.device)))


def limits_of(table: CostTable, max_running: int | None, kv_tokens: int | None) -> Limits:
    """What may run at once: all that the table holds where it is not less. Raises UsageError."""
    return Limits.within(from_table(table), max_running or table.domain.max_decodes, kv_tokens)


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
