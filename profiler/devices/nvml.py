"""Clocks, temperature, power and throttle reasons of one GPU, as far as NVML has them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

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
# The newer name first; which of them there is depends on the binding and on the driver.
REASON_CALLS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
NOT_AVAILABLE = (1 << 32) - 1  # what NVML answers where a number has no value


def monitor(uuid: str | None) -> Callable[[], DeviceState]:
    """Reads the state of the GPU with that UUID (CUDA's, without "GPU-"); all unknown where NVML has none.

    By UUID, since NVML also counts the GPUs that CUDA_VISIBLE_DEVICES hides. NVML stays open for as long as
    the process lives.
    """
    try:
        import pynvml
    except ImportError:
        return DeviceState
    if uuid is None:
        return DeviceState
    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    except pynvml.NVMLError:
        return DeviceState
    return partial(_read, pynvml, handle)


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
        mask = _ask(nvml, name, handle)
        if mask is not None:
            return tuple(REASONS.get(1 << bit, f"bit_{bit}") for bit in range(mask.bit_length()) if mask >> bit & 1)
    return None


def _number(nvml: Any, name: str, *arguments: Any) -> int | None:
    value = _ask(nvml, name, *arguments)
    return value if value is not None and 0 <= value < NOT_AVAILABLE else None


def _ask(nvml: Any, name: str, *arguments: Any) -> int | None:
    """What a call answers; None where the binding or the driver lacks it or the GPU does not say."""
    call = getattr(nvml, name, None)
    if call is None:
        return None
    try:
        answer: int = call(*arguments)
    except nvml.NVMLError:
        return None
    return answer
