"""A whole pass of decodes, from token ids to logits, captured."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..model import Decoder
from .capture import Capture, Replay
from .static_step import StaticStep


@dataclass(frozen=True, slots=True)
class DecodeGraph:
    """logits (size, vocab): what a replay overwrites, in the order of the batch's `sample_rows`."""

    replay: Replay
    logits: torch.Tensor


def capture_decodes(
    decoder: Decoder, static: StaticStep, size: int, longest: int, logits: torch.Tensor, capture: Capture
) -> DecodeGraph:
    """The pass over `size` decodes of contexts up to `longest` tokens; logits: (size or more, vocab), written to."""
    step = static.decodes(size, longest)
    replay, result = capture(lambda: decoder.forward(step, logits[:size]))
    return DecodeGraph(replay, result)
