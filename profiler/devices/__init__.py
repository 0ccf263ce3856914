"""Devices by name. Opening one imports what it needs; this module imports no torch."""

from __future__ import annotations

from collections.abc import Callable

from ...files.errors import MissingExtraError, UsageError
from ...tables.domain import Domain
from .base import Device, DeviceSpec, Sample

__all__ = ["DEVICES", "Device", "DeviceSpec", "Sample", "open_device", "resolve_device"]


def _open_cpu(spec: DeviceSpec) -> Device:
    return _open_torch("cpu", spec)


def _open_cuda(spec: DeviceSpec) -> Device:
    return _open_torch("cuda", spec)


def _open_torch(device: str, spec: DeviceSpec) -> Device:
    _require_torch(device)
    from .torch_device import TorchDevice

    return TorchDevice(device, spec)


def _open_synthetic(spec: DeviceSpec) -> Device:
    from .synthetic import SyntheticDevice

    if spec.attention is not None:
        raise UsageError(
            f"attention {spec.attention!r} on device 'synthetic', which has none; expected device cpu or cuda, or no "
            "choice of attention"
        )
    return SyntheticDevice(spec)


DEVICES: dict[str, Callable[[DeviceSpec], Device]] = {
    "cuda": _open_cuda,
    "cpu": _open_cpu,
    "synthetic": _open_synthetic,
}


def _require_torch(device: str) -> None:
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"device {device} needs torch, which is not installed: pip install 'chunkfit[profile]'"
        ) from error


def resolve_device(name: str) -> str:
    """`name` as a key of DEVICES; `auto` is cuda where there is one, else cpu.

    Raises UsageError for an unknown name, MissingExtraError when `auto` cannot ask torch.
    """
    if name == "auto":
        _require_torch(name)
        import torch

        return "cuda" if torch.cuda.is_available() else "cpu"
    if name not in DEVICES:
        raise UsageError(f"device {name!r} is unknown; expected auto, {', '.join(DEVICES)}")
    return name


def open_device(
    name: str,
    model: str,
    domain: Domain,
    seed: int,
    session: str,
    *,
    attention: str | None = None,
    synthetic_pause_ms: float = 0.0,
) -> Device:
    """A device ready to measure every batch of `domain`.

    Raises UsageError for an unknown name, model or attention, MissingExtraError without torch,
    DeviceUnavailableError when the device or the library of that attention is not there, or model and KV pool do
    not fit.
    """
    spec = DeviceSpec(model, domain, seed, session, attention, synthetic_pause_ms)
    return DEVICES[resolve_device(name)](spec)
