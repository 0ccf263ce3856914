"""A pass whose token-parallel pieces are captured and whose attention runs between them as it is called.

Attention depends on every context, chunk and prefix; the rest depends on the number of tokens. A piece is what lies
between two calls of attention: the end of one layer and the beginning of the next. The last norm and the lm_head stay
outside: they take the sampled rows, one a sequence, and padding those to the tokens would multiply the lm_head's work.
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
from .static_step import StaticStep


@dataclass(frozen=True, slots=True)
class Handover:
    """What pieces and attention leave for each other, always in the same memory; rows are tokens."""

    hidden: torch.Tensor  # (rows, hidden_size)
    branch: torch.Tensor  # (rows, hidden_size)
    projected: torch.Tensor  # (rows, query + 2 kv)
    queries: torch.Tensor  # (rows, heads, head_dim), the front of projected, where backends rotate in place
    attended: torch.Tensor  # (rows, heads, head_dim)

    @classmethod
    def allocate(cls, config: ModelConfig, rows: int, device: torch.device, dtype: torch.dtype) -> Handover:
        def zeros(*width: int) -> torch.Tensor:
            return torch.zeros((rows, *width), device=device, dtype=dtype)

        projected = zeros(config.query_size + 2 * config.kv_size)
        queries = projected.view(rows, -1, config.head_dim)[:, : config.heads]
        attended = zeros(config.heads, config.head_dim)
        return cls(zeros(config.hidden_size), zeros(config.hidden_size), projected, queries, attended)

    def first(self, rows: int) -> Handover:
        """Its first rows."""
        return Handover(
            self.hidden[:rows], self.branch[:rows], self.projected[:rows], self.queries[:rows], self.attended[:rows]
        )


@dataclass(frozen=True, slots=True)
class Pieces:
    """replays: one more than the model has layers, attention of layer i between i and i + 1."""

    decoder: Decoder
    replays: tuple[Replay, ...]
    handover: Handover

    def run(self, step: Step, tokens: int) -> torch.Tensor:
        """Logits (sequences, vocab) of the batch that was loaded as `step`, with `tokens` rows before padding."""
        decoder, handover = self.decoder, self.handover
        first, *others = self.replays
        first()
        # Planned while the device is busy with the first piece.
        plan = decoder.plan(step)
        queries, attended = handover.queries[:tokens], handover.attended[:tokens]
        for index, replay in enumerate(others):
            decoder.attend(index, queries, plan, attended)
            replay()
        return decoder.logits(handover.hidden, handover.branch, step.sample_rows)


def capture_pieces(decoder: Decoder, static: StaticStep, size: int, handover: Handover, capture: Capture) -> Pieces:
    """The pieces over `size` rows, captured in the order they run in; handover: of `size` rows or more."""
    handover = handover.first(size)
    step = static.rows(size)

    def first() -> Any:
        hidden = F.embedding(step.token_ids, decoder.weights.embedding)
        plan = decoder.plan(step)
        _enter(decoder, 0, hidden, None, plan, handover)
        return plan

    # Held while the other pieces are captured. Later sizes may overwrite it: the first piece makes it anew.
    replay, plan = capture(first)
    replays = [replay]
    for index in range(decoder.config.layers):

        def following(index: int = index) -> None:
            hidden, branch = decoder.after_attention(index, handover.attended, handover.hidden)
            if index + 1 < decoder.config.layers:
                _enter(decoder, index + 1, hidden, branch, plan, handover)
            else:
                _leave(hidden, handover.hidden)
                _leave(branch, handover.branch)

        replay, _ = capture(following)
        replays.append(replay)
    return Pieces(decoder, tuple(replays), handover)


def _enter(
    decoder: Decoder, index: int, hidden: torch.Tensor, branch: torch.Tensor | None, plan: Any, handover: Handover
) -> None:
    queries, hidden = decoder.before_attention(index, hidden, branch, plan, handover.projected)
    _leave(queries, handover.queries)
    _leave(hidden, handover.hidden)


def _leave(made: torch.Tensor, place: torch.Tensor) -> None:
    """Copies, unless a backend that works in place has made it there."""
    if not made.is_set_to(place):
        place.copy_(made)
