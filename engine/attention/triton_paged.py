"""The Triton backend: two attention launches a layer, one for all decodes and one for all chunks.

So the keys of decodes are split in a mixed batch too.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from triton import knobs

from ..config import ModelConfig
from ..host_step import StepArrays
from ..kernels.chunk_attention import TILES, ChunkGrid, chunk_attention, grid_for, tile_of
from ..kernels.decode_attention import decode_attention, splits_for
from ..kernels.elementwise import rms_norm
from ..kernels.elementwise import silu_mul as silu_mul
from ..kernels.rope_kv import rope_kv
from ..kv_cache import PAGE_SIZE, LayerCache
from ..rope import rotation
from ..step import Step
from .base import HeadNorms

# The grid of decode attention depends on a group's count and `longest`; each sequence divides its own length.
CAPTURES_DECODES = True
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
# Stands for a GPU under the interpreter: few processors, so that small batches meet one split and several.
INTERPRETED = (4, 8)


@dataclass(frozen=True, slots=True)
class TritonPlan:
    """Rows 0 to decodes - 1 of the pass are decodes."""

    arrays: StepArrays[torch.Tensor]
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


def plan(step: Step, config: ModelConfig, frequencies: torch.Tensor, dtype: torch.dtype) -> TritonPlan:
    """Angles in float32 whatever `dtype` is: the kernel turns in float32."""
    cos, signed_sin = rotation(step.arrays.positions, frequencies, torch.float32)
    processors, capability = _processors_and_capability(step.arrays.positions.device)
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
    decodes = sum(group.count for group in step.decodes)
    return TritonPlan(step.arrays, cos, signed_sin, decodes, splits, chunks, capability)


def add_norm(
    hidden: torch.Tensor, branch: torch.Tensor | None, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    return rms_norm(hidden, branch, weight, eps), hidden


def rotate_and_write(heads: torch.Tensor, norms: HeadNorms | None, cache: LayerCache, plan: TritonPlan) -> torch.Tensor:
    rope_kv(heads, norms, plan.cos, plan.signed_sin, plan.arrays.slots, cache)
    return heads[:, : heads.shape[1] - 2 * (cache.keys.shape[1] // heads.shape[2])]


def attend(queries: torch.Tensor, cache: LayerCache, plan: TritonPlan, out: torch.Tensor) -> None:
    arrays, decodes = plan.arrays, plan.decodes
    if decodes:
        decode_attention(
            queries,
            *cache,
            arrays.lengths[:decodes],
            arrays.page_starts[:decodes],
            arrays.pages,
            out,
            page_size=PAGE_SIZE,
            splits=plan.splits,
        )
    if plan.chunks is not None:
        chunk_rows = slice(decodes, decodes + plan.chunks.rows)
        chunk_attention(
            queries[chunk_rows],
            *cache,
            arrays.first_rows[decodes:],
            arrays.lengths[decodes:],
            arrays.page_starts[decodes:],
            arrays.pages,
            out[chunk_rows],
            page_size=PAGE_SIZE,
            grid=plan.chunks,
            capability=plan.capability,
        )


@functools.cache
def _processors_and_capability(device: torch.device) -> tuple[int, int]:
    if device.type != "cuda":
        return INTERPRETED
    properties = torch.cuda.get_device_properties(device)
    return int(properties.multi_processor_count), int(properties.major)
