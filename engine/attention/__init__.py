"""Backends: attention over the paged KV cache, and the elementwise operations around it."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import torch

from ...tables.errors import DeviceUnavailableError, UsageError
from ..config import ModelConfig
from .base import Backend


def _torch() -> Backend:
    from . import torch_ops

    return torch_ops


def _triton() -> Backend:
    from . import triton_paged

    return triton_paged


BACKENDS: dict[str, Callable[[], Backend]] = {"torch": _torch, "triton": _triton}


def choose(name: str | None, config: ModelConfig, device: torch.device, dtype: torch.dtype) -> str:
    """`name`, or without one triton on a GPU where it is installed and can run that model, else torch.

    Raises UsageError for an unknown name and for what triton cannot run, DeviceUnavailableError where triton is
    not installed.
    """
    if name is None:
        wanted = device.type == "cuda" and find_spec("triton") is not None
        return "triton" if wanted and _triton_problem(config, device, dtype) is None else "torch"
    if name not in BACKENDS:
        raise UsageError(f"attention {name!r}: no backend of that name; expected one of {', '.join(BACKENDS)}")
    if name == "triton":
        if find_spec("triton") is None:
            raise DeviceUnavailableError(
                "attention 'triton': triton is not installed; expected it beside torch: install 'chunkfit[profile]' "
                "on Linux, or use attention 'torch'"
            )
        problem = _triton_problem(config, device, dtype)
        if problem is not None:
            raise UsageError(f"attention 'triton': {problem}; or use attention 'torch'")
    return name


def _triton_problem(config: ModelConfig, device: torch.device, dtype: torch.dtype) -> str | None:
    from . import triton_paged

    return triton_paged.problem(config, device, dtype)
