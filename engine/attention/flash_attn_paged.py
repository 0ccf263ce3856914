"""Attention by FlashAttention 3, all else by the Triton backend's kernels.

Written against flash_attn_3 3.0.0b1 (the hopper folder of flash-attn 2.8.3.post2). Its paged call takes pages of any
size, on Hopper. FlashAttention 2 (flash-attn) takes pages of a multiple of 256 tokens only, which a pool of smaller
ones cannot give without copying the keys, so it is refused. Decodes and chunks are two calls in a layer; the call has
no place for its results, so they are copied.

The widths of the block tables and the longest chunk are arguments on the host: a captured graph would keep them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ..config import ModelConfig
from ..kv_cache import PAGE_SIZE
from ..step import Step
from . import triton_paged
from .host_plan import Part, parts_of, pinned, unattended
from .host_plan import rotate_and_write as rotate_and_write
from .library import LIBRARIES
from .triton_paged import add_norm as add_norm
from .triton_paged import silu_mul as silu_mul

# The widths of block tables are arguments on the host.
CAPTURES_DECODES = False
DTYPES = (torch.float16, torch.bfloat16)
HOPPER = 9


@dataclass(frozen=True, slots=True)
class _Call:
    """For all decodes or all chunks, int32 on the device."""

    rows: slice
    first_rows: torch.Tensor  # (sequences + 1,) from the first of `rows`
    lengths: torch.Tensor  # (sequences,) with the new tokens
    block_tables: torch.Tensor  # (sequences, pages of the longest)
    longest: int  # most new tokens of a sequence


@dataclass(frozen=True, slots=True)
class Plan:
    shared: triton_paged.Plan
    calls: tuple[_Call, ...]


def problem(config: ModelConfig, device: torch.device, dtype: torch.dtype) -> str | None:
    if dtype not in DTYPES:
        return f"dtype is {dtype}; expected one of {', '.join(map(str, DTYPES))}"
    found = triton_paged.problem(config, device, dtype)
    if found is None and device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        if major != HOPPER:
            found = f"FlashAttention 3 runs on compute capability {HOPPER}.0 (Hopper), and this GPU has {major}.{minor}"
    return found


def plan(step: Step, config: ModelConfig, frequencies: torch.Tensor, dtype: torch.dtype) -> Plan:
    device = step.positions.device
    calls = tuple(_call(part, device) for part in parts_of(step) if part is not None)
    return Plan(triton_paged.plan(unattended(step), config, frequencies, dtype), calls)


def attend(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, plan: Plan, out: torch.Tensor) -> None:
    head_dim = queries.shape[2]
    paged = (-1, PAGE_SIZE, keys.shape[1] // head_dim, head_dim)
    for call in plan.calls:
        out[call.rows] = (
            LIBRARIES["flash_attn"]
            .load()
            .flash_attn_with_kvcache(
                queries[call.rows],
                keys.view(paged),
                values.view(paged),
                cache_seqlens=call.lengths,
                page_table=call.block_tables,
                cu_seqlens_q=call.first_rows,
                max_seqlen_q=call.longest,
                causal=True,
            )
        )


def _call(part: Part, device: torch.device) -> _Call:
    # What lies past the end of a shorter table is never read.
    tables = np.zeros((len(part.tables), max(map(len, part.tables))), dtype=np.int64)
    for row, table in zip(tables, part.tables, strict=True):
        row[: len(table)] = table
    parts = part.first_rows, part.lengths, tables.reshape(-1)
    buffer = pinned(np.concatenate(parts), device).to(device, non_blocking=True)
    first_rows, lengths, flat = torch.split(buffer, [len(array) for array in parts])
    return _Call(part.rows, first_rows, lengths, flat.view(tables.shape), int(np.diff(part.first_rows).max()))
