"""The device of a table, opened to serve."""

from __future__ import annotations

from ...files.errors import FingerprintMismatchError
from ...profiler.devices import DeviceSpec, open_device
from ...profiler.devices.nvml import energy_meter
from ...profiler.devices.torch_device import open_engine, uuid_of
from ...tables.cost_table import CostTable
from ..cost import from_table
from ..serving_state import Limits
from .executor import Executor
from .reference import EngineExecutor
from .virtual_clock import VirtualExecutor

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
