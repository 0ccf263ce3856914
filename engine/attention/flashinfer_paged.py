"""Attention by FlashInfer, all else by the Triton backend's kernels.

Written against flashinfer-python 0.7.4. Decodes and chunks are two wrappers, and two runs in a layer. A wrapper's
plan reads row starts and lengths on the host; given tensors of the device it would fetch them and wait, so they are
made on the host, in pinned memory. Page ids are int32 there, offsets into the pool size_t. Kernels are compiled at the
first plan of a head size and type where flashinfer-jit-cache is not installed.

The plan runs on the host and depends on the lengths: a captured graph would keep the plan of its capture.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from ..config import ModelConfig
from ..kv_cache import PAGE_SIZE, pages_for
from ..step import SequenceWork, Step
from . import triton_paged
from .library import LIBRARIES
from .triton_paged import add_norm as add_norm
from .triton_paged import silu_mul as silu_mul

DTYPES = (torch.float16, torch.bfloat16)
HEAD_DIMS = (64, 128)  # of FlashInfer's those that the Triton backend has too
# For the partial results of split keys: at most heads x tiles of 128 rows x head_dim x 4 bytes, which is 121 MB for
# 28 heads of 128, 4 KV heads and 132 processors with two tiles each. 128 MiB is what FlashInfer recommends.
WORKSPACE_BYTES = 256 << 20
# Under that many query heads a KV head the kernel without tensor cores does; it has no variant for 5 or 7.
TENSOR_CORE_HEADS = 4


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Plan:
    """Rows 0 to decodes - 1 of the pass are decodes. A wrapper holds one plan: it is this one's until this is gone."""

    shared: triton_paged.Plan
    decodes: int
    decode: Any  # None without decodes
    chunk: Any  # None without chunks


def problem(config: ModelConfig, device: torch.device, dtype: torch.dtype) -> str | None:
    if dtype not in DTYPES:
        return f"dtype is {dtype}; expected one of {', '.join(map(str, DTYPES))}"
    if config.head_dim not in HEAD_DIMS:
        return f"model {config.name}: head_dim is {config.head_dim}; expected one of {list(HEAD_DIMS)}"
    return triton_paged.problem(config, device, dtype)


def plan(step: Step, config: ModelConfig, frequencies: torch.Tensor, dtype: torch.dtype) -> Plan:
    device, decodes = step.positions.device, len(step.sequences) - len(step.chunks)
    sizes = config.heads, config.kv_heads, config.head_dim, PAGE_SIZE
    lent: list[tuple[list[Any], Any]] = []

    def wrapper(kind: Literal["decode", "chunk"], tensor_cores: bool) -> Any:
        idle = _idle(kind, device, tensor_cores)
        lent.append((idle, idle.pop() if idle else _made(kind, device, tensor_cores)))
        return lent[-1][1]

    decode = chunk = None
    if decodes:
        decode = wrapper("decode", config.heads // config.kv_heads >= TENSOR_CORE_HEADS)
        decode.plan(*_paged(step.sequences[:decodes], device), *sizes, q_data_type=dtype, kv_data_type=dtype)
    if step.chunks:
        chunk = wrapper("chunk", True)
        rows = _on_host(np.cumsum([0, *(rows.tokens for rows in step.chunks)]), device)
        paged = _paged(step.sequences[decodes:], device)
        chunk.plan(rows, *paged, *sizes, causal=True, q_data_type=dtype, kv_data_type=dtype)
    planned = Plan(triton_paged.plan(step, config, frequencies, dtype), decodes, decode, chunk)
    for idle, used in lent:
        weakref.finalize(planned, idle.append, used).atexit = False
    return planned


def rotate_and_write(
    queries_keys: torch.Tensor, new_values: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, plan: Plan
) -> torch.Tensor:
    return triton_paged.rotate_and_write(queries_keys, new_values, keys, values, plan.shared)


def attend(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, plan: Plan) -> torch.Tensor:
    out, decodes, head_dim = queries.new_empty(queries.shape), plan.decodes, queries.shape[2]
    paged = (-1, PAGE_SIZE, keys.shape[1] // head_dim, head_dim)
    pools = keys.view(paged), values.view(paged)
    if plan.decode is not None:
        plan.decode.run(queries[:decodes], pools, out=out[:decodes])
    if plan.chunk is not None:
        plan.chunk.run(queries[decodes:], pools, out=out[decodes:])
    return out


def _paged(sequences: Sequence[SequenceWork], device: torch.device) -> tuple[torch.Tensor, ...]:
    """Where each block table starts (sequences + 1,), the tables, the tokens in each last page (sequences,)."""
    lengths = [work.start + len(work.token_ids) for work in sequences]
    counts = [pages_for(length) for length in lengths]
    tables = [np.asarray(work.pages[:count], dtype=np.int64) for work, count in zip(sequences, counts, strict=True)]
    last = np.array([(length - 1) % PAGE_SIZE + 1 for length in lengths])
    starts = np.cumsum([0, *counts])
    return _on_host(starts, device), _on_host(np.concatenate(tables), device), _on_host(last, device)


def _on_host(values: NDArray[np.int64], device: torch.device) -> torch.Tensor:
    """int32, from where a copy to `device` does not wait."""
    tensor = torch.from_numpy(values.astype(np.int32))
    return tensor.pin_memory() if device.type == "cuda" else tensor


@functools.cache
def _idle(kind: str, device: torch.device, tensor_cores: bool) -> list[Any]:
    """Wrappers whose plans are gone: making one allocates 8 MiB on either side."""
    return []


def _made(kind: Literal["decode", "chunk"], device: torch.device, tensor_cores: bool) -> Any:
    library = LIBRARIES["flashinfer"].load()
    if kind == "decode":
        return library.BatchDecodeWithPagedKVCacheWrapper(_workspace(device), "NHD", use_tensor_cores=tensor_cores)
    return library.BatchPrefillWithPagedKVCacheWrapper(_workspace(device), "NHD")


@functools.cache
def _workspace(device: torch.device) -> torch.Tensor:
    """Zeros, as FlashInfer asks; one for all wrappers, whose runs follow each other on one stream."""
    return torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device=device)
