"""A piecewise CUDA graph: everything between two calls of attention is captured, attention runs eagerly.

Attention depends on every context, chunk and prefix; the rest depends only on the number of tokens. A piece is the end
of one layer and the beginning of the next. The last norm and the lm_head run eagerly too: they take one row a sequence,
and padding those rows to the tokens would multiply the work of the lm_head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from ..config import ModelConfig
from ..model import Decoder
from ..step import Step
from .capture import Capture, Replay
from .static_batch import StaticBatch


@dataclass(frozen=True, slots=True)
class StaticActivations:
    """Fixed memory through which pieces and attention pass their results; rows are tokens."""

    hidden: torch.Tensor  # (rows, hidden_size)
    branch: torch.Tensor  # (rows, hidden_size)
    projected: torch.Tensor  # (rows, query + 2 kv)
    queries: torch.Tensor  # (rows, heads, head_dim), the front of projected, where backends rotate in place
    attended: torch.Tensor  # (rows, heads, head_dim)

    @classmethod
    def allocate(cls, config: ModelConfig, rows: int, device: torch.device, dtype: torch.dtype) -> StaticActivations:
        def zeros(*width: int) -> torch.Tensor:
            return torch.zeros((rows, *width), device=device, dtype=dtype)

        projected = zeros(config.query_size + 2 * config.kv_size)
        queries = projected.view(rows, -1, config.head_dim)[:, : config.heads]
        attended = zeros(config.heads, config.head_dim)
        return cls(zeros(config.hidden_size), zeros(config.hidden_size), projected, queries, attended)

    def first(self, rows: int) -> StaticActivations:
        """Views of the first rows."""
        return StaticActivations(
            self.hidden[:rows], self.branch[:rows], self.projected[:rows], self.queries[:rows], self.attended[:rows]
        )


@dataclass(frozen=True, slots=True)
class PiecewiseGraph:
    """replays: one more than the model has layers; attention of layer i runs between i and i + 1."""

    decoder: Decoder
    replays: tuple[Replay, ...]
    activations: StaticActivations

    def run(self, step: Step, tokens: int) -> torch.Tensor:
        """Logits (sequences, vocab) of the batch loaded as `step`, which has `tokens` rows without padding."""
        decoder, activations = self.decoder, self.activations
        first, *others = self.replays
        first()
        # The host plans while the device is busy with the first piece.
        plan = decoder.plan(step)
        queries, attended = activations.queries[:tokens], activations.attended[:tokens]
        for index, replay in enumerate(others):
            decoder.attend(index, queries, plan, attended)
            replay()
        return decoder.logits(activations.hidden, activations.branch, step.arrays.sample_rows)


def capture_piecewise(
    decoder: Decoder, static: StaticBatch, size: int, activations: StaticActivations, capture: Capture
) -> PiecewiseGraph:
    """The pieces over `size` rows, captured in the order they run in; activations: of `size` rows or more."""
    activations = activations.first(size)
    step = static.rows_step(size)

    def first() -> Any:
        hidden = F.embedding(step.arrays.token_ids, decoder.weights.embedding)
        plan = decoder.plan(step)
        _start_layer(decoder, 0, hidden, None, plan, activations)
        return plan

    # The plan stays alive while the other pieces are captured. Later sizes may overwrite its memory: the first piece
    # computes it again in every replay.
    replay, plan = capture(first)
    replays = [replay]
    for index in range(decoder.config.layers):

        def following(index: int = index) -> None:
            hidden, branch = decoder.after_attention(index, activations.attended, activations.hidden)
            if index + 1 < decoder.config.layers:
                _start_layer(decoder, index + 1, hidden, branch, plan, activations)
            else:
                _store(hidden, activations.hidden)
                _store(branch, activations.branch)

        replay, _ = capture(following)
        replays.append(replay)
    return PiecewiseGraph(decoder, tuple(replays), activations)


def _start_layer(
    decoder: Decoder,
    index: int,
    hidden: torch.Tensor,
    branch: torch.Tensor | None,
    plan: Any,
    activations: StaticActivations,
) -> None:
    queries, hidden = decoder.before_attention(index, hidden, branch, plan, activations.projected)
    _store(queries, activations.queries)
    _store(hidden, activations.hidden)


def _store(result: torch.Tensor, place: torch.Tensor) -> None:
    """Copies, unless a backend that works in place has left the result there."""
    if not result.is_set_to(place):
        place.copy_(result)
