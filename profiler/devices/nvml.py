"""Clocks, temperature, power, throttle reasons and energy of one GPU, as far as NVML has them."""

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

    NVML stays open for as long as the process lives.
    """
    opened = _opened(uuid)
    return DeviceState if opened is None else partial(_read, *opened)


def energy_meter(uuid: str | None) -> Callable[[], float | None]:
    """Reads the joules that the GPU with that UUID has used since its driver was loaded; None where NVML has none."""
    opened = _opened(uuid)
    if opened is None:
        return lambda: None

    def joules() -> float | None:
        millijoules = _ask(opened[0], "nvmlDeviceGetTotalEnergyConsumption", opened[1])
        return None if millijoules is None else millijoules / 1000

    return joules


def _opened(uuid: str | None) -> tuple[Any, Any] | None:
    """The binding and the GPU's handle. By UUID: NVML also counts the GPUs that CUDA_VISIBLE_DEVICES hides."""
    try:
        import pynvml
    except ImportError:
        return None
    if uuid is None:
        return None
    try:
        pynvml.nvmlInit()
        return pynvml, pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    except pynvml.NVMLError:
        return None


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
