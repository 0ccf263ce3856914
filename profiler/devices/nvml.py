"""Clocks, temperature, power, throttle reasons and energy of one GPU, where NVML reports them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...files.gpu import ask, open_gpu
from ..condition import DeviceState

# Bits of nvmlClocksEventReason* (until driver 535 nvmlClocksThrottleReason*), nvml.h.
REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
# The newer name first; binding and driver decide which of them exists.
REASON_CALLS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
NOT_AVAILABLE = (1 << 32) - 1  # NVML's answer for a number without value


def monitor(uuid: str | None) -> Callable[[], DeviceState]:
    """Reads the state of the GPU with that UUID (CUDA's, without "GPU-"); all unknown where NVML has none.

    NVML stays open for as long as the process lives.
    """
    opened = open_gpu(uuid)
    return DeviceState if opened is None else partial(_read, *opened)


def energy_meter(uuid: str | None) -> Callable[[], float | None]:
    """Reads the joules that the GPU with that UUID has used since its driver was loaded; None where NVML has none."""
    opened = open_gpu(uuid)
    if opened is None:
        return lambda: None

    def joules() -> float | None:
        millijoules = ask(opened[0], "nvmlDeviceGetTotalEnergyConsumption", opened[1])
        return None if millijoules is None else millijoules / 1000

    return joules


def _read(nvml: Any, handle: Any) -> DeviceState:
    power_mw = _number(nvml, "nvmlDeviceGetPowerUsage", handle)
    return DeviceState(
        sm_clock_mhz=_number(nvml, "nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM),
        memory_clock_mhz=_number(nvml, "nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_MEM),
        temperature_c=_number(nvml, "nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU),
        power_w=None if power_mw is None else power_mw / 1000,
        throttle=_throttle(nvml, handle),
    )


def _throttle(nvml: Any, handle: Any) -> tuple[str, ...] | None:
    for name in REASON_CALLS:
        mask = ask(nvml, name, handle)
        if mask is not None:
            return tuple(REASONS.get(1 << bit, f"bit_{bit}") for bit in range(mask.bit_length()) if mask >> bit & 1)
    return None


def _number(nvml: Any, name: str, *arguments: Any) -> int | None:
    value = ask(nvml, name, *arguments)
    return value if value is not None and 0 <= value < NOT_AVAILABLE else None
