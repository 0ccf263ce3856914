"""What the backends need beside torch: which package, from which version on, and whether it can be used here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ..kv_cache import PAGE_SIZE
from ..provenance import installed_version


@dataclass(frozen=True, slots=True)
class Library:
    """module: what is imported; distribution: what it is installed as; least: first version (major, minor) whose
    calls are the ones made; install: what to do without it.
    """

    module: str
    distribution: str
    least: tuple[int, int]
    install: str

    @property
    def version(self) -> str | None:
        return installed_version(self.distribution)

    def absence(self) -> str | None:
        """Why it cannot be used and what to do, or None when it can."""
        expected = f"expected {self.distribution} {'.'.join(map(str, self.least))} or later: {self.install}"
        if find_spec(self.module) is None:
            return f"{self.module} is not installed; {expected}"
        if self.version is None:
            return f"{self.module} is there, and no {self.distribution} that would tell its version; {expected}"
        if tuple(map(int, re.findall(r"\d+", self.version)[:2])) < self.least:
            return f"{self.distribution} {self.version} is installed; {expected}"
        try:
            self.load()
        except (ImportError, OSError, RuntimeError) as error:  # built for another torch or CUDA, no compiler
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            return f"{self.distribution} {self.version} does not import ({reason}); {expected}"
        return None

    def load(self) -> Any:
        return import_module(self.module)


LIBRARIES = {
    "triton": Library("triton", "triton", (3, 6), "install 'chunkfit[profile]' on Linux"),
    "flashinfer": Library("flashinfer", "flashinfer-python", (0, 7), "pip install flashinfer-python"),
    "flash_attn": Library(
        "flash_attn_interface",
        "flash_attn_3",
        (3, 0),
        "build it from the hopper folder of the flash-attention repository (flash-attn 2 will not do: its pages hold "
        f"a multiple of 256 tokens, the engine's {PAGE_SIZE})",
    ),
}
