"""What a backend does in a forward pass."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from ..config import ModelConfig
from ..step import Step


class Backend(Protocol):
    """All of a layer but its matrix products. A backend is a module with these functions.

    keys and values are one layer's pool, (slots, kv_heads * head_dim). Nothing waits for the device.
    """

    # Whether `plan` and `attend` of decodes launch the same work for every batch of as many decodes whose longest
    # context may be a group's `longest`, all else read on the device from the step's tensors (`block_table` of a
    # group is none of them): a pass of decodes can then be captured whole.
    CAPTURES_DECODES: bool

    def problem(self, config: ModelConfig, device: torch.device, dtype: torch.dtype) -> str | None:
        """Why it cannot run that model there, and what would do, or None when it can."""

    def plan(self, step: Step, config: ModelConfig, frequencies: torch.Tensor, dtype: torch.dtype) -> Any:
        """What is the same for every layer, once per iteration. frequencies: `ModelWeights.rope_frequencies`."""

    def add_norm(
        self, hidden: torch.Tensor, branch: torch.Tensor | None, weight: torch.Tensor, eps: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(norm of the sum, the sum) of hidden and branch, each (tokens, hidden_size); hidden itself where branch
        is None. May add in place: the caller goes on with what is returned.
        """

    def rotate_and_write(
        self,
        queries_keys: torch.Tensor,
        new_values: torch.Tensor,
        query_norm: torch.Tensor | None,
        key_norm: torch.Tensor | None,
        eps: float,
        keys: torch.Tensor,
        values: torch.Tensor,
        plan: Any,
    ) -> torch.Tensor:
        """queries_keys (tokens, heads + kv_heads, head_dim), each head normed by itself with query_norm or key_norm
        (head_dim,) and eps, then rotated by its position; both None: rotated only. The keys and new_values (tokens,
        kv_heads, head_dim) are written to the tokens' slots. Returns the queries; may work in place.
        """

    def attend(
        self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, plan: Any, out: torch.Tensor
    ) -> None:
        """From queries (tokens, heads, head_dim), rows of which may lie apart, into out, contiguous, of the same shape:
        the new tokens written already, scores scaled by 1 / sqrt(head_dim). Query heads h of KV head j are
        h // (heads / kv_heads) == j.
        """

    def silu_mul(self, gate_up: torch.Tensor) -> torch.Tensor:
        """gate_up (tokens, 2 intermediate_size), gates first -> silu(gate) * up."""
