"""Attention backends: attention over the paged KV cache, and the elementwise operations around it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

import torch

from ...files.errors import DeviceUnavailableError, UsageError
from ...files.host import installed_version
from ..config import ModelConfig
from .base import Backend


@dataclass(frozen=True, slots=True)
class Requirement:
    """A package that a backend imports beside torch. oldest: first (major, minor) version with the calls we make."""

    package: str
    oldest: tuple[int, int]
    install: str

    def problem(self) -> str | None:
        """Why the package cannot be used here and what to do, or None when it can."""
        expected = f"expected {self.package} {'.'.join(map(str, self.oldest))} or later: {self.install}"
        if find_spec(self.package) is None:
            return f"{self.package} is not installed; {expected}"
        version = installed_version(self.package)
        if version is None:
            return f"{self.package} is there, and no version of it is known; {expected}"
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < self.oldest:
            return f"{self.package} {version} is installed; {expected}"
        try:
            import_module(self.package)
        except (ImportError, OSError, RuntimeError) as error:  # built for another torch or CUDA, no compiler
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            return f"{self.package} {version} does not import ({reason}); {expected}"
        return None


@dataclass(frozen=True, slots=True)
class Registered:
    """load: imports the backend's module; requirement: None where torch alone is enough."""

    load: Callable[[], Backend]
    requirement: Requirement | None = None

    def absence(self) -> str | None:
        """Why the backend cannot be loaded here and what to do, or None when it can."""
        return None if self.requirement is None else self.requirement.problem()


def _torch() -> Backend:
    from . import torch_ops

    return torch_ops


def _triton() -> Backend:
    from . import triton_paged

    return triton_paged


BACKENDS: dict[str, Registered] = {
    "torch": Registered(_torch),
    "triton": Registered(_triton, Requirement("triton", (3, 6), "install 'chunkfit[profile]' on Linux")),
}


def choose(name: str | None, config: ModelConfig, device: torch.device, dtype: torch.dtype) -> str:
    """`name`, or without one triton on a GPU where it is installed and can run that model, else torch.

    Raises UsageError for an unknown name and for what the backend cannot run, DeviceUnavailableError where its
    package is missing, too old or does not import.
    """
    if name is None:
        return "triton" if device.type == "cuda" and _problem("triton", config, device, dtype) is None else "torch"
    if name not in BACKENDS:
        raise UsageError(f"attention {name!r}: no backend of that name; expected one of {', '.join(BACKENDS)}")
    absence = BACKENDS[name].absence()
    if absence is not None:
        raise DeviceUnavailableError(f"attention {name!r}: {absence}, or use attention 'torch'")
    problem = BACKENDS[name].load().problem(config, device, dtype)
    if problem is not None:
        raise UsageError(f"attention {name!r}: {problem}; or use attention 'torch'")
    return name


def usable(config: ModelConfig, device: torch.device, dtype: torch.dtype) -> dict[str, str | None]:
    """Every backend, with why it cannot run that model there, or None when it can."""
    return {name: _problem(name, config, device, dtype) for name in BACKENDS}


def _problem(name: str, config: ModelConfig, device: torch.device, dtype: torch.dtype) -> str | None:
    return BACKENDS[name].absence() or BACKENDS[name].load().problem(config, device, dtype)
