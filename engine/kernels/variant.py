"""One compiled form of a kernel: its compile-time constants and launch options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Variant:
    """constants: every compile-time constant of `kernel`; options: as `options` makes them.

    Whoever launches and whoever only compiles build it with the same function, so that what was checked
    is what runs.
    """

    kernel: Any
    constants: Mapping[str, int | float | bool]
    options: Mapping[str, int]

    def launch(self, grid: tuple[int, ...], *arguments: Any) -> None:
        """Runs it; `arguments` are those before the constants, in order. Does not wait for the device."""
        self.kernel[grid](*arguments, **self.constants, **self.options)


def options(warps: int, stages: int = 1) -> dict[str, int]:
    """Launch options. Fused multiply-adds are asked for, since Triton 3.10 changes what happens unasked."""
    return {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": True}


def padded(count: int, least: int = 1) -> int:
    """The power of two that holds `count` and `least`: Triton's blocks are powers of two.

    >>> padded(7), padded(8), padded(3, 16)
    (8, 8, 16)
    """
    return max(least, 1 << (count - 1).bit_length())
