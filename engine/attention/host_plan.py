"""What libraries that plan on the host are told, decodes or chunks of a batch, and what they leave to Triton."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from ..host_step import HostStep
from ..kv_cache import pages_for
from ..step import Step
from . import triton_paged


@dataclass(frozen=True, slots=True)
class Part:
    """Sequences that are neighbours in the pass, all on the host."""

    rows: slice  # of the pass
    first_rows: NDArray[np.int64]  # (sequences + 1,), counted from the first of `rows`
    lengths: NDArray[np.int64]  # (sequences,) tokens with the new ones
    tables: tuple[NDArray[np.int64], ...]  # pages of each


class SharedPlan(Protocol):
    """A library's plan, which holds the Triton backend's for all but attention."""

    @property
    def shared(self) -> triton_paged.Plan: ...


def rotate_and_write(
    queries_keys: torch.Tensor,
    new_values: torch.Tensor,
    query_norm: torch.Tensor | None,
    key_norm: torch.Tensor | None,
    eps: float,
    keys: torch.Tensor,
    values: torch.Tensor,
    plan: SharedPlan,
) -> torch.Tensor:
    return triton_paged.rotate_and_write(queries_keys, new_values, query_norm, key_norm, eps, keys, values, plan.shared)


def parts_of(step: Step) -> tuple[Part | None, Part | None]:
    """The decodes and the chunks, None for what the batch has none of. Nothing is fetched from the device."""
    host = step.host
    if host is None:
        return None, None
    sequences = len(host.lengths)
    decodes = sequences - len(host.chunks)
    return _part(host, 0, decodes), _part(host, decodes, sequences)


def unattended(step: Step) -> Step:
    """`step` for a plan of all but attention: no grids of kernels that the library replaces."""
    return replace(step, decodes=(), chunks=())


def pinned(values: NDArray[np.int64], device: torch.device) -> torch.Tensor:
    """As int32 on the host, from where a copy to `device` does not wait."""
    tensor = torch.from_numpy(values.astype(np.int32))
    return tensor.pin_memory() if device.type == "cuda" else tensor


def _part(host: HostStep, first: int, end: int) -> Part | None:
    if first == end:
        return None
    rows, lengths = host.first_rows[first : end + 1], host.lengths[first:end]
    tables = tuple(
        host.pages[start : start + pages_for(length)]
        for start, length in zip(host.page_starts[first:end].tolist(), lengths.tolist(), strict=True)
    )
    return Part(slice(int(rows[0]), int(rows[-1])), rows - rows[0], lengths, tables)
