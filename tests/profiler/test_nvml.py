"""NVML through a thin fake of its binding: either name of the throttle call, what is missing, what is not supported."""

import sys
from types import SimpleNamespace

import pytest

from chunkfit.profiler.condition import DeviceState
from chunkfit.profiler.devices.nvml import energy_meter, monitor

UNKNOWN = DeviceState()


class NVMLError(Exception):
    pass


def fake(**changes):
    """A binding of which `changes` replaces calls, None removes one."""

    def clock(handle, kind):
        assert handle == "handle of GPU-1-2"
        return {1: 1980, 2: 2619}[kind]

    calls = {
        "NVMLError": NVMLError,
        "NVML_CLOCK_SM": 1,
        "NVML_CLOCK_MEM": 2,
        "NVML_TEMPERATURE_GPU": 0,
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByUUID": lambda uuid: f"handle of {uuid}",
        "nvmlDeviceGetClockInfo": clock,
        "nvmlDeviceGetTemperature": lambda handle, sensor: 41,
        "nvmlDeviceGetPowerUsage": lambda handle: 402_345,
        "nvmlDeviceGetCurrentClocksEventReasons": lambda handle: 0x5,
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: 0x8,
    } | changes
    return SimpleNamespace(**{name: call for name, call in calls.items() if call is not None})


def not_supported(*arguments):
    raise NVMLError("Not Supported")


@pytest.fixture
def state(monkeypatch):
    def read(uuid="1-2", **changes):
        monkeypatch.setitem(sys.modules, "pynvml", fake(**changes))
        return monitor(uuid)()

    return read


def test_everything_is_read(state):
    assert state() == DeviceState(
        sm_clock_mhz=1980,
        memory_clock_mhz=2619,
        temperature_c=41,
        power_w=402.345,
        throttle=("gpu_idle", "sw_power_cap"),
    )


@pytest.mark.parametrize("newer", [None, not_supported], ids=["binding lacks it", "driver lacks it"])
def test_the_older_name_of_the_throttle_call_serves(state, newer):
    assert state(nvmlDeviceGetCurrentClocksEventReasons=newer).throttle == ("hw_slowdown",)
    both = {"nvmlDeviceGetCurrentClocksEventReasons": newer, "nvmlDeviceGetCurrentClocksThrottleReasons": newer}
    assert state(**both).throttle is None


@pytest.mark.parametrize(
    ("mask", "reasons"),
    [
        (0, ()),
        (0x102, ("applications_clocks_setting", "display_clock_setting")),
        (0xE0, ("sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")),
        (0x410, ("sync_boost", "bit_10")),
    ],
)
def test_reasons_by_bit(state, mask, reasons):
    assert state(nvmlDeviceGetCurrentClocksEventReasons=lambda handle: mask).throttle == reasons


@pytest.mark.parametrize(
    ("call", "fields"),
    [
        ("nvmlDeviceGetClockInfo", {"sm_clock_mhz", "memory_clock_mhz"}),
        ("nvmlDeviceGetTemperature", {"temperature_c"}),
        ("nvmlDeviceGetPowerUsage", {"power_w"}),
    ],
)
@pytest.mark.parametrize("how", [None, not_supported, lambda *arguments: 0xFFFFFFFF], ids=["absent", "N/A", "no value"])
def test_what_the_gpu_does_not_say_stays_unknown_alone(state, call, fields, how):
    found = state(**{call: how})
    assert {name for name, value in found if value is None} == fields


def test_no_nvml_no_gpu_no_uuid(state, monkeypatch):
    assert state(nvmlInit=not_supported) == UNKNOWN
    assert state(nvmlDeviceGetHandleByUUID=not_supported) == UNKNOWN
    assert state(uuid=None) == UNKNOWN
    monkeypatch.setitem(sys.modules, "pynvml", None)  # not installed
    assert monitor("1-2")() == UNKNOWN


def test_energy_is_in_joules_and_unknown_where_the_gpu_does_not_say(monkeypatch):
    def read(**changes):
        monkeypatch.setitem(sys.modules, "pynvml", fake(**changes))
        return energy_meter("1-2")()

    assert read(nvmlDeviceGetTotalEnergyConsumption=lambda handle: 12_500) == 12.5
    assert read(nvmlDeviceGetTotalEnergyConsumption=not_supported) is None
    assert read() is None
    assert energy_meter(None)() is None
