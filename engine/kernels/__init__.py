"""Triton kernels of the engine, and `Variant`: one compiled form of a kernel.

The modules import triton and nothing else of weight, so the compiler alone can build every variant without a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Variant:
    """constants: every compile-time constant of `kernel`; options: as `options` makes them.

    Launchers and tests that only compile make variants with the same functions, so the tested code is the code that
    runs.
    """

    kernel: Any
    constants: Mapping[str, int | float | bool]
    options: Mapping[str, int]

    def launch(self, grid: tuple[int, ...], *arguments: Any) -> None:
        """Launches the kernel on the arguments before the constants, in order. Does not wait for the device."""
        self.kernel[grid](*arguments, **self.constants, **self.options)


def options(warps: int, stages: int = 1) -> dict[str, int]:
    """Launch options. Fused multiply-adds are set explicitly, since Triton 3.10 changes the default."""
    return {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": True}


def padded(count: int, least: int = 1) -> int:
    """The power of two that holds `count` and `least`: Triton's blocks are powers of two.

    >>> padded(7), padded(8), padded(3, 16)
    (8, 8, 16)
    """
    return max(least, 1 << (count - 1).bit_length())
