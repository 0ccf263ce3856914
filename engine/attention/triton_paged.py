"""The Triton backend: two attention launches in a layer, one for all decodes and one for all chunks, so that the
decodes of a mixed batch keep their split keys.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from triton import knobs

from ..config import ModelConfig
from ..kernels.chunk_attention import TILES, ChunkGrid, chunk_attention, grid_for, tile_of
from ..kernels.decode_attention import decode_attention, splits_for
from ..kernels.rms_norm import rms_norm
from ..kernels.rope_kv import rope_kv
from ..kernels.silu_mul import silu_mul as fused_silu_mul
from ..kv_cache import PAGE_SIZE
from ..rope import rotation
from ..step import Step

# The grid of decode attention depends on a group's count and `longest`; each sequence divides its own length.
CAPTURES_DECODES = True
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
# Stands for a GPU under the interpreter: few processors, so that small batches meet one split and several.
INTERPRETED = (4, 8)


@dataclass(frozen=True, slots=True)
class Plan:
    """Rows 0 to decodes - 1 of the pass are decodes."""

    step: Step
    cos: torch.Tensor  # (tokens, 1, head_dim), float32
    signed_sin: torch.Tensor
    decodes: int
    splits: int
    chunks: ChunkGrid | None  # None: there are none
    capability: int


def problem(config: ModelConfig, device: torch.device, dtype: torch.dtype) -> str | None:
    if device.type != "cuda" and not knobs.runtime.interpret:
        return f"its kernels do not run on {device.type}; expected device cuda"
    if dtype not in DTYPES:
        return f"dtype is {dtype}; expected one of {', '.join(map(str, DTYPES))}"
    head_dims = sorted({head_dim for head_dim, _ in TILES})
    if config.head_dim not in head_dims:
        return f"model {config.name}: head_dim is {config.head_dim}; expected one of {head_dims}"
    return None


def plan(step: Step, config: ModelConfig, frequencies: torch.Tensor, dtype: torch.dtype) -> Plan:
    """Angles in float32 whatever `dtype` is: the kernel turns in float32."""
    cos, signed_sin = rotation(step.positions, frequencies, torch.float32)
    processors, capability = _processors_and_capability(step.positions.device)
    splits = 1
    if step.decodes:
        # A group's contexts are alike, and its longest stands for each.
        total = sum(group.count * group.longest for group in step.decodes)
        splits = splits_for(total, max(group.longest for group in step.decodes), config.kv_heads, processors)
    chunks = None
    if step.chunks:
        tile = tile_of(config.head_dim, dtype.itemsize, capability)
        sizes = [(rows.tokens, rows.length) for rows in step.chunks]
        chunks = grid_for(sizes, config.heads // config.kv_heads, config.kv_heads, tile, processors)
    return Plan(
        step,
        cos,
        signed_sin,
        sum(group.count for group in step.decodes),
        splits,
        chunks,
        capability,
    )


def add_norm(
    hidden: torch.Tensor, branch: torch.Tensor | None, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    return rms_norm(hidden, branch, weight, eps), hidden


def rotate_and_write(
    queries_keys: torch.Tensor,
    new_values: torch.Tensor,
    query_norm: torch.Tensor | None,
    key_norm: torch.Tensor | None,
    eps: float,
    keys: torch.Tensor,
    values: torch.Tensor,
    plan: Plan,
) -> torch.Tensor:
    turn = (plan.cos, plan.signed_sin, plan.step.slots)
    rope_kv(queries_keys, new_values, query_norm, key_norm, eps, *turn, keys, values)
    return queries_keys[:, : queries_keys.shape[1] - new_values.shape[1]]


def attend(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, plan: Plan, out: torch.Tensor) -> None:
    step, decodes = plan.step, plan.decodes
    if decodes:
        decode_attention(
            queries,
            keys,
            values,
            step.lengths[:decodes],
            step.page_starts[:decodes],
            step.pages,
            out,
            page_size=PAGE_SIZE,
            splits=plan.splits,
        )
    if plan.chunks is not None:
        chunk_rows = slice(decodes, decodes + plan.chunks.rows)
        chunk_attention(
            queries[chunk_rows],
            keys,
            values,
            step.first_rows[decodes:],
            step.lengths[decodes:],
            step.page_starts[decodes:],
            step.pages,
            out[chunk_rows],
            page_size=PAGE_SIZE,
            grid=plan.chunks,
            capability=plan.capability,
        )


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    return fused_silu_mul(gate_up)


@functools.cache
def _processors_and_capability(device: torch.device) -> tuple[int, int]:
    if device.type != "cuda":
        return INTERPRETED
    properties = torch.cuda.get_device_properties(device)
    return int(properties.multi_processor_count), int(properties.major)
