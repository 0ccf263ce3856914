"""Facts about this machine: its devices, their memory, and the fingerprint of a profile measured here."""

from __future__ import annotations

import platform
import warnings
from dataclasses import dataclass

import torch

from ..files import host
from ..files.errors import DeviceUnavailableError, UsageError
from ..files.gpu import ask, gpu_uuid, open_gpu, open_nvml
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
    """The facts that `doctor` prints. Memory is the host's, in bytes; None means unknown."""

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
        driver=_driver(),
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
    """The fingerprint of a profile that this engine measures now. Raises as `require_device`."""
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
        driver=_driver() if cuda else None,
        cuda=torch.version.cuda if cuda else None,
        torch=torch.__version__,
        triton=host.installed_version("triton"),
        clock_limits=_clock_limits(_index(target)) if cuda else None,
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
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        if torch.cuda.is_available():
            return None
        try:
            torch.cuda.init()  # type: ignore[no-untyped-call]
            reason = "no reason given"
        except (RuntimeError, AssertionError) as error:
            reason = str(error)
    reason = (str(raised[0].message) if raised else reason).splitlines()[0]
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


def _driver() -> str | None:
    nvml = open_nvml()
    version = None if nvml is None else ask(nvml, "nvmlSystemGetDriverVersion")
    # NVML's Python binding returned bytes before version 11.5.
    return version.decode() if isinstance(version, bytes) else version


def _clock_limits(index: int) -> str | None:
    """Power limit and highest SM clock."""
    opened = open_gpu(gpu_uuid(index))
    if opened is None:
        return None
    nvml, handle = opened
    milliwatts = ask(nvml, "nvmlDeviceGetPowerManagementLimit", handle)
    mhz = ask(nvml, "nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_SM)
    return None if milliwatts is None or mhz is None else f"power {milliwatts / 1000:.0f} W, SM clock {mhz} MHz"
