"""Facts about this machine: which devices there are, how much they hold, what a profile was measured on."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..files import host
from ..files.errors import DeviceUnavailableError, UsageError
from ..tables.fingerprint import Fingerprint
from .config import ModelConfig

ENGINE_NAME = "chunkfit-engine"


@dataclass(frozen=True, slots=True)
class GpuFacts:
    index: int
    name: str
    memory_bytes: int
    free_bytes: int
    sm_count: int


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What `doctor` shows. Memory is the host's, in bytes; None means unknown."""

    torch: str
    cuda: str | None  # runtime torch was built with
    driver: str | None
    cuda_problem: str | None  # why cuda cannot be used; None when it can
    gpus: tuple[GpuFacts, ...]
    cpu_name: str
    cpu_threads: int  # torch computes with
    memory_bytes: int
    free_bytes: int


def machine_facts() -> MachineFacts:
    """Looks at the machine; never raises for a missing GPU."""
    problem = cuda_problem()
    gpus = [] if problem else [_gpu(index) for index in range(torch.cuda.device_count())]
    total, free = memory_bytes(torch.device("cpu"))
    return MachineFacts(
        torch=torch.__version__,
        cuda=torch.version.cuda,
        driver=_nvml(lambda nvml: _text(nvml.nvmlSystemGetDriverVersion())),
        cuda_problem=problem,
        gpus=tuple(gpus),
        cpu_name=host.cpu_name(),
        cpu_threads=torch.get_num_threads(),
        memory_bytes=total,
        free_bytes=free,
    )


def fingerprint(
    config: ModelConfig, device: str, dtype: torch.dtype, attention: str, capture_sizes: tuple[int, ...]
) -> Fingerprint:
    """On what a profile taken now with this engine is measured. Raises as `require_device`."""
    target = require_device(device)
    cuda = target.type == "cuda"
    gpu = _gpu(_index(target)) if cuda else None
    return Fingerprint(
        device_kind=target.type,
        device_name=gpu.name if gpu else host.cpu_name(),
        device_memory_bytes=memory_bytes(target)[0],
        sm_count=gpu.sm_count if gpu else None,
        cpu_threads=None if cuda else torch.get_num_threads(),
        model_name=config.name,
        model_shape=config.shape(),
        dtype=str(dtype).removeprefix("torch."),
        tensor_parallel=1,
        engine=ENGINE_NAME,
        engine_version=host.installed_version("chunkfit"),
        attention_backend=attention,
        capture_sizes=capture_sizes,
        driver=_nvml(lambda nvml: _text(nvml.nvmlSystemGetDriverVersion())) if cuda else None,
        cuda=torch.version.cuda if cuda else None,
        torch=torch.__version__,
        triton=host.installed_version("triton"),
        clock_limits=_clock_limits(target) if cuda else None,
        os=platform.release(),
    )


def require_device(device: str) -> torch.device:
    """The device of that name, a GPU with its number. Raises UsageError for a name the engine does not know and
    DeviceUnavailableError for a GPU that is not there.
    """
    try:
        target = torch.device(device)
    except RuntimeError:
        target = None
    if target is None or target.type not in ("cpu", "cuda"):
        raise UsageError(f"device {device!r}: unknown to the engine; expected cpu, cuda or cuda:N")
    if target.type == "cuda":
        problem = cuda_problem()
        if problem is not None:
            raise DeviceUnavailableError(f"device {device!r}: {problem}; or use device cpu")
        if _index(target) >= torch.cuda.device_count():
            raise DeviceUnavailableError(
                f"device {device!r}: torch sees {torch.cuda.device_count()} GPU(s); expected a number below "
                "that: check CUDA_VISIBLE_DEVICES"
            )
        return torch.device("cuda", _index(target))
    return target


def cuda_problem() -> str | None:
    """Why torch cannot use a GPU here and what to do, or None when it can."""
    if torch.version.cuda is None:
        return (
            f"torch {torch.__version__} was built without CUDA; expected a CUDA build: install one as "
            "pytorch.org/get-started says"
        )
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        if torch.cuda.is_available():
            return None
        try:
            torch.cuda.init()  # type: ignore[no-untyped-call]
            reason = "no reason given"
        except (RuntimeError, AssertionError) as error:
            reason = str(error)
    reason = (str(said[0].message) if said else reason).splitlines()[0]
    return (
        f"torch {torch.__version__} (CUDA {torch.version.cuda}) finds no usable GPU: {reason}; expected a "
        "working NVIDIA driver and GPU: check nvidia-smi and CUDA_VISIBLE_DEVICES"
    )


def memory_bytes(device: torch.device) -> tuple[int, int]:
    """(total, free) bytes; free includes what torch holds in reserve on a GPU and respects a container's
    limit on the host.
    """
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        reserve = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return total, free + reserve
    return host.memory_bytes()


def _gpu(index: int) -> GpuFacts:
    properties = torch.cuda.get_device_properties(index)
    total, free = memory_bytes(torch.device("cuda", index))
    return GpuFacts(index, torch.cuda.get_device_name(index), total, free, int(properties.multi_processor_count))


def _index(device: torch.device) -> int:
    return torch.cuda.current_device() if device.index is None else device.index


def _clock_limits(device: torch.device) -> str | None:
    """Power limit and highest SM clock. By UUID: NVML counts GPUs that CUDA_VISIBLE_DEVICES hides."""
    uuid = getattr(torch.cuda.get_device_properties(_index(device)), "uuid", None)

    def read(nvml: Any) -> str:
        handle = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        watts = nvml.nvmlDeviceGetPowerManagementLimit(handle) / 1000
        return f"power {watts:.0f} W, SM clock {nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)} MHz"

    return None if uuid is None else _nvml(read)


def _nvml(read: Callable[[Any], str]) -> str | None:
    """What `read` gets from NVML, or None where NVML or the fact is not to be had."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        return read(pynvml)
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()


def _text(value: str | bytes) -> str:
    """NVML's Python binding returned bytes before version 11.5."""
    return value.decode() if isinstance(value, bytes) else value
