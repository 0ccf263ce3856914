"""Attention by FlashInfer, all else by the Triton backend's kernels.

Written against flashinfer-python 0.7.4. Decodes and chunks are two wrappers, and two runs in a layer. A wrapper's
plan reads row starts and lengths on the host; given tensors of the device it would fetch them and wait, so they are
made on the host, in pinned memory. Page ids are int32 there, offsets into the pool size_t. Kernels are compiled at the
first plan of a head size and type where flashinfer-jit-cache is not installed.

The plan runs on the host and depends on the lengths: a captured graph would keep the plan of its capture. Its own host
buffer is copied in the stream's order, so the host has to wait once between two plans of a wrapper, as it does for the
tokens of every iteration.
"""

from __future__ import annotations

import functools
import weakref
from dataclasses import dataclass
from typing import Any, Literal

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

Kind = Literal["decode", "chunk"]

# Its plan is made on the host for the lengths at hand.
CAPTURES_DECODES = False
DTYPES = (torch.float16, torch.bfloat16)
HEAD_DIMS = (64, 128)  # of FlashInfer's those that the Triton backend has too
# For the partial results of split keys: at most heads x tiles of 128 rows x head_dim x 4 bytes, which is 121 MB for
# 28 heads of 128, 4 KV heads and 132 processors with two tiles each. 128 MiB is what FlashInfer recommends.
WORKSPACE_BYTES = 256 << 20
# Under that many query heads a KV head the kernel without tensor cores does; it has no variant for 5 or 7.
TENSOR_CORE_HEADS = 4


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Plan:
    """runs: rows of the pass and the wrapper that attends for them; it is this plan's until the plan is gone."""

    shared: triton_paged.Plan
    runs: tuple[tuple[slice, Any], ...]


def problem(config: ModelConfig, device: torch.device, dtype: torch.dtype) -> str | None:
    if dtype not in DTYPES:
        return f"dtype is {dtype}; expected one of {', '.join(map(str, DTYPES))}"
    if config.head_dim not in HEAD_DIMS:
        return f"model {config.name}: head_dim is {config.head_dim}; expected one of {list(HEAD_DIMS)}"
    return triton_paged.problem(config, device, dtype)


def plan(step: Step, config: ModelConfig, frequencies: torch.Tensor, dtype: torch.dtype) -> Plan:
    device = step.positions.device
    sizes = config.heads, config.kv_heads, config.head_dim, PAGE_SIZE
    types = {"q_data_type": dtype, "kv_data_type": dtype}
    decodes, chunks = parts_of(step)
    lent: list[tuple[list[Any], Any]] = []
    runs: list[tuple[slice, Any]] = []

    def wrapper(part: Part, kind: Kind, tensor_cores: bool) -> Any:
        idle = _idle(kind, device, tensor_cores)
        taken = idle.pop() if idle else _made(kind, device, tensor_cores)
        lent.append((idle, taken))
        runs.append((part.rows, taken))
        return taken

    if decodes is not None:
        tensor_cores = config.heads // config.kv_heads >= TENSOR_CORE_HEADS
        wrapper(decodes, "decode", tensor_cores).plan(*_paged(decodes, device), *sizes, **types)
    if chunks is not None:
        first_rows = pinned(chunks.first_rows, device)
        wrapper(chunks, "chunk", True).plan(first_rows, *_paged(chunks, device), *sizes, causal=True, **types)
    planned = Plan(triton_paged.plan(unattended(step), config, frequencies, dtype), tuple(runs))
    for idle, taken in lent:
        weakref.finalize(planned, idle.append, taken).atexit = False
    return planned


def attend(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, plan: Plan, out: torch.Tensor) -> None:
    head_dim = queries.shape[2]
    paged = (-1, PAGE_SIZE, keys.shape[1] // head_dim, head_dim)
    for rows, wrapper in plan.runs:
        wrapper.run(queries[rows], (keys.view(paged), values.view(paged)), out=out[rows])


def _paged(part: Part, device: torch.device) -> tuple[torch.Tensor, ...]:
    """Where each block table starts (sequences + 1,), the tables, the tokens in each last page (sequences,)."""
    starts = np.cumsum([0, *map(len, part.tables)])
    last = (part.lengths - 1) % PAGE_SIZE + 1
    return pinned(starts, device), pinned(np.concatenate(part.tables), device), pinned(last, device)


@functools.cache
def _idle(kind: Kind, device: torch.device, tensor_cores: bool) -> list[Any]:
    """Wrappers whose plans are gone: making one allocates 8 MiB on either side."""
    return []


def _made(kind: Kind, device: torch.device, tensor_cores: bool) -> Any:
    library = LIBRARIES["flashinfer"].load()
    if kind == "decode":
        return library.BatchDecodeWithPagedKVCacheWrapper(_workspace(device), "NHD", use_tensor_cores=tensor_cores)
    return library.BatchPrefillWithPagedKVCacheWrapper(_workspace(device), "NHD")


@functools.cache
def _workspace(device: torch.device) -> torch.Tensor:
    """Zeros, as FlashInfer asks; one for all wrappers, whose runs follow each other on one stream."""
    return torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device=device)
