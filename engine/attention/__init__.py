"""Backends: attention over the paged KV cache, and the elementwise operations around it."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ...files.errors import DeviceUnavailableError, UsageError
from ..config import ModelConfig
from .base import Backend
from .library import LIBRARIES


def _torch() -> Backend:
    from . import torch_ops

    return torch_ops


def _triton() -> Backend:
    from . import triton_paged

    return triton_paged


def _flashinfer() -> Backend:
    from . import flashinfer_paged

    return flashinfer_paged


def _flash_attn() -> Backend:
    from . import flash_attn_paged

    return flash_attn_paged


# What each imports beside torch. The elementwise kernels of the libraries' backends are Triton's.
NEEDS: dict[str, tuple[str, ...]] = {
    "torch": (),
    "triton": ("triton",),
    "flashinfer": ("triton", "flashinfer"),
    "flash_attn": ("triton", "flash_attn"),
}
BACKENDS: dict[str, Callable[[], Backend]] = {
    "torch": _torch,
    "triton": _triton,
    "flashinfer": _flashinfer,
    "flash_attn": _flash_attn,
}


def choose(name: str | None, config: ModelConfig, device: torch.device, dtype: torch.dtype) -> str:
    """`name`, or without one triton on a GPU where it is installed and can run that model, else torch.

    Raises UsageError for an unknown name and for what the backend cannot run, DeviceUnavailableError where its
    library is missing, too old or does not import.
    """
    if name is None:
        wanted = device.type == "cuda" and absence("triton") is None
        return "triton" if wanted and BACKENDS["triton"]().problem(config, device, dtype) is None else "torch"
    if name not in BACKENDS:
        raise UsageError(f"attention {name!r}: no backend of that name; expected one of {', '.join(BACKENDS)}")
    missing = absence(name)
    if missing is not None:
        raise DeviceUnavailableError(f"attention {name!r}: {missing}, or use attention 'torch'")
    problem = BACKENDS[name]().problem(config, device, dtype)
    if problem is not None:
        raise UsageError(f"attention {name!r}: {problem}; or use attention 'torch'")
    return name


def absence(name: str) -> str | None:
    """Why what a backend needs cannot be used here and what to do, or None when it can."""
    for needed in NEEDS[name]:
        missing = LIBRARIES[needed].absence()
        if missing is not None:
            return missing
    return None


def title(name: str) -> str:
    """How a fingerprint names a backend: with the version of its library. (Those of torch and triton have fields.)"""
    return name if name in ("torch", "triton") else f"{name} {LIBRARIES[name].version}"


def usable(config: ModelConfig, device: torch.device, dtype: torch.dtype) -> dict[str, str | None]:
    """Every backend, with why it cannot run that model there, or None when it can."""
    return {name: absence(name) or BACKENDS[name]().problem(config, device, dtype) for name in BACKENDS}
