"""NVML through a fake binding: what is missing or not supported is None."""

import sys
from types import SimpleNamespace

import pytest
import torch

from chunkfit.engine import facts
from chunkfit.files import gpu


class NVMLError(Exception):
    pass


def refused(*_):
    raise NVMLError("Not Supported")


@pytest.fixture
def nvml(monkeypatch):
    binding = SimpleNamespace(
        NVMLError=NVMLError,
        NVML_CLOCK_SM=1,
        nvmlInit=lambda: None,
        nvmlSystemGetDriverVersion=lambda: b"580.65",
        nvmlDeviceGetHandleByUUID=lambda uuid: f"handle of {uuid}",
        nvmlDeviceGetPowerManagementLimit=lambda handle: 700_000,
        nvmlDeviceGetMaxClockInfo=lambda handle, kind: 1980,
    )
    monkeypatch.setitem(sys.modules, "pynvml", binding)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="1-2"))
    return binding


def test_limits_and_driver(nvml):
    assert gpu.gpu_uuid(0) == "1-2"
    assert gpu.open_gpu("1-2") == (nvml, "handle of GPU-1-2")
    assert facts._clock_limits(0) == "power 700 W, SM clock 1980 MHz"
    assert facts._driver() == "580.65"
    nvml.nvmlSystemGetDriverVersion = lambda: "580.65"
    assert facts._driver() == "580.65"


@pytest.mark.parametrize("call", ["nvmlInit", "nvmlDeviceGetHandleByUUID", "nvmlDeviceGetMaxClockInfo"])
def test_a_refused_call_is_an_unknown_limit(nvml, call):
    setattr(nvml, call, refused)
    assert facts._clock_limits(0) is None
    assert (gpu.open_gpu("1-2") is None) == (call != "nvmlDeviceGetMaxClockInfo")


def test_no_uuid_and_no_binding(nvml, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace())
    assert gpu.gpu_uuid(0) is None
    assert gpu.open_gpu(None) is None
    assert facts._clock_limits(0) is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert gpu.open_nvml() is None
    assert facts._driver() is None
