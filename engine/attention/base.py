"""The operations of a forward pass that an attention backend implements."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import torch

from ..config import ModelConfig
from ..kv_cache import LayerCache
from ..step import Step


class HeadNorms(NamedTuple):
    """RMSNorm of each query and key head before RoPE: weights (head_dim,), the same for every head, and epsilon."""

    query: torch.Tensor
    key: torch.Tensor
    eps: float


class Backend(Protocol):
    """All operations of a layer but its matrix products. A backend is a module with these functions.

    cache: keys and values of one layer. No function waits for the device.
    """

    # Whether one graph can hold a pass of decodes: `plan` and `attend` launch the same work for equally many decodes
    # of contexts up to a group's `longest`, and read all else on the device from the step's arrays (a group's
    # `block_table` is none of them).
    CAPTURES_DECODES: bool

    def problem(self, config: ModelConfig, device: torch.device, dtype: torch.dtype) -> str | None:
        """Why the backend cannot run that model there, and what it could run, or None when it can."""

    def plan(self, step: Step, config: ModelConfig, frequencies: torch.Tensor, dtype: torch.dtype) -> Any:
        """Everything that is equal in all layers, once an iteration. frequencies: `ModelWeights.rope_frequencies`."""

    def add_norm(
        self, hidden: torch.Tensor, branch: torch.Tensor | None, weight: torch.Tensor, eps: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(norm of the sum, the sum) of hidden and branch, each (tokens, hidden_size); hidden itself where branch
        is None. May add in place: only the returned tensors are valid afterwards.
        """

    def rotate_and_write(
        self,
        heads: torch.Tensor,
        norms: HeadNorms | None,
        cache: LayerCache,
        plan: Any,
    ) -> torch.Tensor:
        """heads (tokens, heads + 2 kv_heads, head_dim): queries, keys and values of the new tokens. Queries and keys
        are normed, where the model has norms, and rotated by their positions; keys and values are written to the
        tokens' slots. Returns the queries (tokens, heads, head_dim); may work in place.
        """

    def attend(self, queries: torch.Tensor, cache: LayerCache, plan: Any, out: torch.Tensor) -> None:
        """Attention from queries (tokens, heads, head_dim), whose rows may lie apart, into out, contiguous, of the same
        shape. The new tokens are in the cache already; scores are scaled by 1 / sqrt(head_dim). Query head h reads KV
        head h // (heads / kv_heads).
        """

    def silu_mul(self, gate_up: torch.Tensor) -> torch.Tensor:
        """gate_up (tokens, 2 intermediate_size), gates first -> silu(gate) * up."""
