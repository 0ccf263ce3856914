"""What the microbenchmarks call of the engine, in one place: the functions that its forward pass calls.

Each is one operator of a layer; a test composes them to the engine's own logits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F

from ...engine.attention import attend, plan
from ...engine.config import ModelConfig
from ...engine.engine import Engine
from ...engine.rope import rotate
from ...engine.step import SequenceWork, build_step


def norm(hidden: torch.Tensor, weight: torch.Tensor, config: ModelConfig) -> torch.Tensor:
    return F.rms_norm(hidden, weight.shape, weight, config.rms_norm_eps)


def project(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """rows (tokens, inputs) by weight (outputs, inputs)."""
    return F.linear(rows, weight)


def project_add(residual: torch.Tensor, rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.addmm(residual, rows, weight.t())


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up


def rope_write(
    projected: torch.Tensor,
    rotations: tuple[torch.Tensor, torch.Tensor],
    keys: torch.Tensor,
    values: torch.Tensor,
    slots: torch.Tensor,
    config: ModelConfig,
) -> torch.Tensor:
    """projected (tokens, query + 2 kv): rotates queries and keys, writes keys and values into their slots.
    Returns the queries (tokens, heads, head_dim).
    """
    heads = projected.view(projected.shape[0], -1, config.head_dim)
    rotated = config.heads + config.kv_heads
    queries_keys = rotate(heads[:, :rotated], *rotations)
    keys.index_copy_(0, slots, queries_keys[:, config.heads :].flatten(1))
    values.index_copy_(0, slots, heads[:, rotated:].flatten(1))
    return queries_keys[:, : config.heads]


def attention(
    engine: Engine, decodes: Sequence[SequenceWork], chunks: Sequence[SequenceWork], queries: torch.Tensor
) -> Callable[[], torch.Tensor]:
    """Attention of the engine's first layer over that batch, planned already (once per iteration, not per layer)."""
    step = build_step(
        decodes, chunks, vocab_size=engine.config.vocab_size, pages=engine.allocator.pages, device=engine.device
    )
    planned = plan(step, engine.dtype)
    keys, values = engine.cache.layer(0)
    return lambda: attend(queries, keys, values, planned)
