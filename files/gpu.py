"""One NVIDIA GPU by its UUID: NVML also counts the GPUs that CUDA_VISIBLE_DEVICES hides, so numbers do not do."""

from __future__ import annotations

from typing import Any


def gpu_uuid(device: Any) -> str | None:
    """UUID (without "GPU-") of a CUDA device, given as torch.device or number; None where torch does not know it."""
    import torch

    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    return None if uuid is None else str(uuid)


def open_nvml() -> Any | None:
    """NVML's Python binding, initialised, open for the life of the process; None without the binding or a driver."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def open_gpu(uuid: str | None) -> tuple[Any, Any] | None:
    """(binding, handle) of the GPU with that UUID; None where NVML does not have it."""
    nvml = None if uuid is None else open_nvml()
    handle = None if nvml is None else ask(nvml, "nvmlDeviceGetHandleByUUID", f"GPU-{uuid}")
    return None if nvml is None or handle is None else (nvml, handle)


def ask(nvml: Any, name: str, *arguments: Any) -> Any | None:
    """The answer of an NVML call; None where the binding or the driver lacks it or the GPU does not support it."""
    call = getattr(nvml, name, None)
    if call is None:
        return None
    try:
        return call(*arguments)
    except nvml.NVMLError:
        return None
