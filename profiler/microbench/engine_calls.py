"""Calls of the engine that the microbenchmarks time: matrix products and the functions of its attention backend.

Each is one operator of a layer; a test composes them to the engine's own logits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from ...engine.attention import BACKENDS
from ...engine.attention.base import Backend
from ...engine.engine import Engine
from ...engine.host_step import SequenceWork
from ...engine.step import build_step


def backend_of(engine: Engine) -> Backend:
    """The functions that the engine calls between its matrix products."""
    return BACKENDS[engine.attention].load()


def project(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """rows (tokens, inputs) by weight (outputs, inputs)."""
    return F.linear(rows, weight, bias)


def bias_of(engine: Engine, product: str) -> torch.Tensor | None:
    """The bias of a layer's product: of query_key_value, where the model has one."""
    return engine.weights.layers[0].query_key_value_bias if product == "query_key_value" else None


def planned(engine: Engine, decodes: Sequence[SequenceWork], chunks: Sequence[SequenceWork]) -> Any:
    """The backend's plan of that batch: made once per iteration, not per layer."""
    step = build_step(
        decodes, chunks, vocab_size=engine.config.vocab_size, pages=engine.allocator.pages, device=engine.device
    )
    return backend_of(engine).plan(step, engine.config, engine.weights.rope_frequencies, engine.dtype)


def rotate_and_write(engine: Engine, projected: torch.Tensor, plan: Any) -> torch.Tensor:
    """projected (tokens, query + 2 kv), heads normed first where the model does that, into the first layer's pool.

    Returns the queries (tokens, heads, head_dim).
    """
    heads = projected.view(projected.shape[0], -1, engine.config.head_dim)
    norms = engine.weights.layers[0].head_norms
    return backend_of(engine).rotate_and_write(heads, norms, engine.cache.layer(0), plan)


def attention(
    engine: Engine, decodes: Sequence[SequenceWork], chunks: Sequence[SequenceWork], queries: torch.Tensor
) -> Callable[[], torch.Tensor]:
    """Attention of the engine's first layer over that batch, planned already."""
    plan, backend = planned(engine, decodes, chunks), backend_of(engine)
    cache = engine.cache.layer(0)
    out = queries.new_empty(queries.shape)

    def run() -> torch.Tensor:
        backend.attend(queries, cache, plan, out)
        return out

    return run
