"""The two ceilings: how fast memory is copied and how fast matrices are multiplied.

Convention: a copy moves its bytes twice, read and written; a CPU's fetch of the overwritten lines is not counted. A
product of square matrices takes 2 m^3 FLOPs; the rate is that of the fastest size, in the engine's dtype. An operator
that only reads may exceed the copy's bandwidth.
"""

from __future__ import annotations

from ...engine.config import ModelConfig
from .cold_timing import Call
from .operator_buffers import Operator, OperatorBuffers

FAMILY = "ceiling"
# Bytes of one copy at least, and rows of the square matrices.
COPY_BYTES = {"cpu": 64 << 20, "cuda": 512 << 20}
MATRIX_ROWS = {"cpu": (256, 512, 1024), "cuda": (2048, 4096, 8192)}


def operators(config: ModelConfig, item: int, kind: str, cache_bytes: int) -> list[Operator]:
    """kind: "cpu" or "cuda"."""
    return [_copy(item, max(COPY_BYTES[kind], 4 * cache_bytes)), *(_matrix(item, rows) for rows in MATRIX_ROWS[kind])]


def _copy(item: int, size: int) -> Operator:
    def make(buffers: OperatorBuffers) -> Call:
        source, target = buffers.take(size // item), buffers.take(size // item)
        return lambda: target.copy_(source)

    return Operator(FAMILY, "copy", {"bytes": size}, 2 * size, 0, 2 * size, make)


def _matrix(item: int, rows: int) -> Operator:
    def make(buffers: OperatorBuffers) -> Call:
        left, right = buffers.take(rows, rows), buffers.take(rows, rows)
        return lambda: left @ right

    return Operator(FAMILY, "matrix", {"rows": rows}, 3 * item * rows**2, 2 * rows**3, 2 * item * rows**2, make)
