"""The decoder: weights and the forward pass over a mixed batch, in pieces."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from .attention.base import Backend, HeadNorms
from .config import ModelConfig
from .kv_cache import KVCache
from .rope import rope_frequencies
from .step import Step


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """Matrices are (out, in); projections that read the same input are one matrix. None: the model has none."""

    attention_norm: torch.Tensor  # (hidden,)
    query_key_value: torch.Tensor  # (query + 2 kv, hidden)
    query_key_value_bias: torch.Tensor | None  # (query + 2 kv,)
    head_norms: HeadNorms | None
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
            head_norms=(
                HeadNorms(vector(config.head_dim, 1.0), vector(config.head_dim, 1.0), config.rms_norm_eps)
                if config.qk_norm
                else None
            ),
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


@dataclass(frozen=True, slots=True)
class Decoder:
    """A forward pass in pieces. The piece between two calls of attention depends only on the number of tokens, so CUDA
    graphs can hold it. No piece waits for the device.

    hidden and branch, (tokens, hidden_size): the residual stream, and the output of a block that is not yet added.
    """

    config: ModelConfig
    weights: ModelWeights
    cache: KVCache
    backend: Backend

    def plan(self, step: Step) -> Any:
        """The backend's plan of `step`, for all layers."""
        return self.backend.plan(step, self.config, self.weights.rope_frequencies, self.weights.embedding.dtype)

    def before_attention(
        self,
        index: int,
        hidden: torch.Tensor,
        branch: torch.Tensor | None,
        plan: Any,
        projected: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(queries (tokens, heads, head_dim), hidden with branch added) of layer `index`; its keys and values are
        written into the cache. projected (tokens, query + 2 kv): where to leave the projection, else a new tensor.
        """
        config, layer = self.config, self.weights.layers[index]
        normed, hidden = self.backend.add_norm(hidden, branch, layer.attention_norm, config.rms_norm_eps)
        heads = _project(normed, layer.query_key_value, layer.query_key_value_bias, projected).view(
            hidden.shape[0], -1, config.head_dim
        )
        return self.backend.rotate_and_write(heads, layer.head_norms, self.cache.layer(index), plan), hidden

    def attend(self, index: int, queries: torch.Tensor, plan: Any, out: torch.Tensor) -> None:
        """Attention of layer `index` from queries into out, both (tokens, heads, head_dim)."""
        self.backend.attend(queries, self.cache.layer(index), plan, out)

    def after_attention(
        self, index: int, attended: torch.Tensor, hidden: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(hidden, branch) after what follows attention in layer `index`; attended: (tokens, heads, head_dim)."""
        layer = self.weights.layers[index]
        branch = F.linear(attended.flatten(1), layer.attention_out)
        normed, hidden = self.backend.add_norm(hidden, branch, layer.mlp_norm, self.config.rms_norm_eps)
        return hidden, F.linear(self.backend.silu_mul(F.linear(normed, layer.gate_up)), layer.down)

    def logits(
        self, hidden: torch.Tensor, branch: torch.Tensor, rows: torch.Tensor, out: torch.Tensor | None = None
    ) -> torch.Tensor:
        """(sequences, vocab) of those rows after the last layer, in `out` where given.

        Only the last row of a sequence is sampled: a chunk of 2,000 tokens costs one row of the lm_head.
        """
        hidden, branch = hidden.index_select(0, rows), branch.index_select(0, rows)
        normed, _ = self.backend.add_norm(hidden, branch, self.weights.final_norm, self.config.rms_norm_eps)
        return _project(normed, self.weights.lm_head, None, out)

    def forward(self, step: Step, out: torch.Tensor | None = None) -> torch.Tensor:
        """Logits (sequences, vocab) of each sequence's last token, in the order of `sample_rows`.

        Writes the keys and values of the new tokens into the cache.
        """
        hidden = F.embedding(step.arrays.token_ids, self.weights.embedding)
        branch: torch.Tensor | None = None
        plan = self.plan(step)
        for index in range(self.config.layers):
            queries, hidden = self.before_attention(index, hidden, branch, plan)
            attended = queries.new_empty(queries.shape)
            self.attend(index, queries, plan, attended)
            hidden, branch = self.after_attention(index, attended, hidden)
        assert branch is not None  # a model has layers
        return self.logits(hidden, branch, step.arrays.sample_rows, out)


def _project(
    rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor | None
) -> torch.Tensor:
    """rows (tokens, inputs) by weight (outputs, inputs): F.linear, which cannot write into `out`."""
    if bias is None:
        return torch.mm(rows, weight.t(), out=out)
    return torch.addmm(bias, rows, weight.t(), out=out)
