"""The decoder: weights and one forward pass over a mixed batch."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from .attention.base import Backend
from .config import ModelConfig
from .kv_cache import KVCache
from .rope_frequencies import rope_frequencies
from .step import Step


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """Matrices are (out, in); projections that read the same input are one matrix. None: the model has none."""

    attention_norm: torch.Tensor  # (hidden,)
    query_key_value: torch.Tensor  # (query + 2 kv, hidden)
    query_key_value_bias: torch.Tensor | None  # (query + 2 kv,)
    query_norm: torch.Tensor | None  # (head_dim,), the same for every query head
    key_norm: torch.Tensor | None  # (head_dim,), the same for every key head
    attention_out: torch.Tensor  # (hidden, query)
    mlp_norm: torch.Tensor  # (hidden,)
    gate_up: torch.Tensor  # (2 intermediate, hidden)
    down: torch.Tensor  # (hidden, intermediate)


@dataclass(frozen=True, slots=True)
class ModelWeights:
    embedding: torch.Tensor  # (vocab, hidden)
    layers: tuple[LayerWeights, ...]
    final_norm: torch.Tensor  # (hidden,)
    lm_head: torch.Tensor  # (vocab, hidden); the embedding itself where the two are tied
    rope_frequencies: torch.Tensor  # (head_dim / 2,) radians per token, float32 or float64


def random_weights(
    config: ModelConfig, device: torch.device, dtype: torch.dtype, generator: torch.Generator
) -> ModelWeights:
    """Normal with deviation 1 / sqrt(inputs), so that activations keep their size through the layers
    (products on zeros or on denormal numbers take another time); norms near 1, biases near 0.
    """

    def matrix(outputs: int, inputs: int) -> torch.Tensor:
        weights = torch.empty((outputs, inputs), device=device, dtype=dtype)
        return weights.normal_(0.0, 1.0 / math.sqrt(inputs), generator=generator)

    def vector(size: int, mean: float) -> torch.Tensor:
        return torch.empty(size, device=device, dtype=dtype).normal_(mean, 0.02, generator=generator)

    projected = config.query_size + 2 * config.kv_size
    embedding = matrix(config.vocab_size, config.hidden_size)
    layers = tuple(
        LayerWeights(
            attention_norm=vector(config.hidden_size, 1.0),
            query_key_value=matrix(projected, config.hidden_size),
            query_key_value_bias=vector(projected, 0.0) if config.qkv_bias else None,
            query_norm=vector(config.head_dim, 1.0) if config.qk_norm else None,
            key_norm=vector(config.head_dim, 1.0) if config.qk_norm else None,
            attention_out=matrix(config.hidden_size, config.query_size),
            mlp_norm=vector(config.hidden_size, 1.0),
            gate_up=matrix(2 * config.intermediate_size, config.hidden_size),
            down=matrix(config.hidden_size, config.intermediate_size),
        )
        for _ in range(config.layers)
    )
    lm_head = embedding if config.tie_embeddings else matrix(config.vocab_size, config.hidden_size)
    # Sent once: a copy in every pass would make the host wait.
    frequencies = torch.tensor(
        rope_frequencies(config.head_dim, config.rope_theta, config.rope_scaling).tolist(),
        device=device,
        dtype=torch.float64 if dtype == torch.float64 else torch.float32,
    )
    return ModelWeights(embedding, layers, vector(config.hidden_size, 1.0), lm_head, frequencies)


def forward(config: ModelConfig, weights: ModelWeights, cache: KVCache, step: Step, backend: Backend) -> torch.Tensor:
    """Logits (sequences, vocab) of each sequence's last token, in the order of `step.sample_rows`.

    Writes the keys and values of the new tokens into `cache`. Nothing in it waits for the device.
    """
    hidden = F.embedding(step.token_ids, weights.embedding)
    branch: torch.Tensor | None = None
    plan = backend.plan(step, config, weights.rope_frequencies, hidden.dtype)
    rotated_heads = config.heads + config.kv_heads
    for index, layer in enumerate(weights.layers):
        normed, hidden = backend.add_norm(hidden, branch, layer.attention_norm, config.rms_norm_eps)
        projected = F.linear(normed, layer.query_key_value, layer.query_key_value_bias).view(
            hidden.shape[0], rotated_heads + config.kv_heads, config.head_dim
        )
        keys, values = cache.layer(index)
        queries = backend.rotate_and_write(
            projected[:, :rotated_heads],
            projected[:, rotated_heads:],
            layer.query_norm,
            layer.key_norm,
            config.rms_norm_eps,
            keys,
            values,
            plan,
        )
        attended = backend.attend(queries, keys, values, plan)
        branch = F.linear(attended.flatten(1), layer.attention_out)

        normed, hidden = backend.add_norm(hidden, branch, layer.mlp_norm, config.rms_norm_eps)
        branch = F.linear(backend.silu_mul(F.linear(normed, layer.gate_up)), layer.down)
    # Only the last row of a sequence is sampled: a chunk of 2,000 tokens costs one row of the lm_head.
    assert branch is not None  # a model has layers
    hidden = hidden.index_select(0, step.sample_rows)
    branch = branch.index_select(0, step.sample_rows)
    normed, _ = backend.add_norm(hidden, branch, weights.final_norm, config.rms_norm_eps)
    return F.linear(normed, weights.lm_head)
