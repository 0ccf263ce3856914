"""Attention by FlashAttention 3, all else by the Triton backend's kernels.

Written against flash_attn_3 3.0.0b1 (the hopper folder of flash-attn 2.8.3.post2). Its paged call takes pages of any
size, on Hopper. FlashAttention 2 (flash-attn) takes pages of a multiple of 256 tokens only, which a pool of smaller
ones cannot give without copying the keys, so it is refused. Decodes and chunks are two calls in a layer; the call has
no place for its results, so those of a mixed batch are copied together.

The widths of the block tables and the longest chunk are arguments on the host: a captured graph would keep them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ..config import ModelConfig
from ..kv_cache import PAGE_SIZE, pages_for
from ..step import SequenceWork, Step, send
from . import triton_paged
from .library import LIBRARIES
from .triton_paged import add_norm as add_norm
from .triton_paged import silu_mul as silu_mul

DTYPES = (torch.float16, torch.bfloat16)
HOPPER = 9


@dataclass(frozen=True, slots=True)
class _Part:
    """All decodes or all chunks of the pass, int32 on the device."""

    rows: slice
    lengths: torch.Tensor  # (sequences,) with the new tokens
    first_rows: torch.Tensor  # (sequences + 1,) from the first row of the part
    block_table: torch.Tensor  # (sequences, pages of the longest)
    longest: int  # most new tokens of a sequence


@dataclass(frozen=True, slots=True)
class Plan:
    shared: triton_paged.Plan
    parts: tuple[_Part, ...]


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
    decodes = len(step.sequences) - len(step.chunks)
    parts = (slice(0, decodes), slice(decodes, len(step.sequences)))
    return Plan(
        triton_paged.plan(step, config, frequencies, dtype),
        tuple(
            _part(step.sequences[part], first_row, step.positions.device)
            for part, first_row in zip(parts, (0, decodes), strict=True)
            if step.sequences[part]
        ),
    )


def rotate_and_write(
    queries_keys: torch.Tensor, new_values: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, plan: Plan
) -> torch.Tensor:
    return triton_paged.rotate_and_write(queries_keys, new_values, keys, values, plan.shared)


def attend(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, plan: Plan) -> torch.Tensor:
    head_dim = queries.shape[2]
    paged = (-1, PAGE_SIZE, keys.shape[1] // head_dim, head_dim)
    attended = [
        LIBRARIES["flash_attn"]
        .load()
        .flash_attn_with_kvcache(
            queries[part.rows],
            keys.view(paged),
            values.view(paged),
            cache_seqlens=part.lengths,
            page_table=part.block_table,
            cu_seqlens_q=part.first_rows,
            max_seqlen_q=part.longest,
            causal=True,
        )
        for part in plan.parts
    ]
    return attended[0] if len(attended) == 1 else torch.cat(attended)


def _part(sequences: Sequence[SequenceWork], first_row: int, device: torch.device) -> _Part:
    tokens = [len(work.token_ids) for work in sequences]
    lengths = [work.start + count for work, count in zip(sequences, tokens, strict=True)]
    # What lies past a shorter sequence is never read.
    table = np.zeros((len(sequences), pages_for(max(lengths))), dtype=np.int64)
    for row, work, length in zip(table, sequences, lengths, strict=True):
        used = pages_for(length)
        row[:used] = work.pages[:used]
    parts: list[NDArray[np.int64]] = [np.array(lengths), np.cumsum([0, *tokens]), table.reshape(-1)]
    length_view, row_view, table_view = send(parts, device, np.int32)
    return _Part(
        slice(first_row, first_row + sum(tokens)), length_view, row_view, table_view.view(table.shape), max(tokens)
    )
