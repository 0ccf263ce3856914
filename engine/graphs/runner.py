"""All CUDA graphs of an engine, and which of them runs a batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..host_step import HostStep, SequenceWork, lay_out
from ..kv_cache import pages_for
from ..model import Decoder
from ..step import send
from . import CAPTURE_SIZES, DECODE_SIZES, bucket_for
from .capture import Capture, Replay
from .piecewise import PiecewiseGraph, StaticActivations, capture_piecewise
from .static_batch import EMPTY_BATCH, StaticBatch, pad_decodes, pad_rows

# The shortest context whose keys attention splits for a few rows that leave the GPU idle.
SPLIT_CONTEXT = 4096


@dataclass(frozen=True, slots=True)
class DecodeGraph:
    """A whole pass over decodes. logits (size, vocab): a replay overwrites them, in the order of `sample_rows`."""

    replay: Replay
    logits: torch.Tensor


def capture_decodes(
    decoder: Decoder, static: StaticBatch, size: int, longest: int, logits: torch.Tensor, capture: Capture
) -> DecodeGraph:
    """The pass over `size` decodes of contexts up to `longest` tokens, from token ids to the first `size` rows of
    logits (size or more, vocab).
    """
    step = static.decode_step(size, longest)
    replay, result = capture(lambda: decoder.forward(step, logits[:size]))
    return DecodeGraph(replay, result)


class GraphRunner:
    """For each size a piecewise graph and, where the backend allows it, a graph of that many decodes. The largest size
    is captured first, so that smaller ones reuse its memory in the shared pool.

    pages: pages of the sequences; the cache has one more, the last, for padding. longest: the longest context of a
    decode that is expected; attention of decodes splits keys for it.
    """

    def __init__(self, decoder: Decoder, pages: int, longest: int, capture: Capture) -> None:
        self._dummy_page = pages
        self._sizes = CAPTURE_SIZES
        self._decode_sizes = DECODE_SIZES if decoder.backend.CAPTURES_DECODES else ()
        self._piecewise: dict[int, PiecewiseGraph] = {}
        self._decodes: dict[int, DecodeGraph] = {}
        embedding, largest = decoder.weights.embedding, self._sizes[-1]
        # Block tables of a group of decodes are padded, by a third or by 9 pages a decode at the most. More entries
        # than this mean that sequences share pages.
        self._static = StaticBatch(largest, 2 * pages + 16 * largest, embedding.device)
        activations = StaticActivations.allocate(decoder.config, largest, embedding.device, embedding.dtype)
        with torch.inference_mode():
            self._compile_attention(decoder, longest)
            logits = embedding.new_empty((max(self._decode_sizes, default=0), decoder.config.vocab_size))
            for size in reversed(self._sizes):
                self._static.load(pad_rows(EMPTY_BATCH, size, pages))
                self._piecewise[size] = capture_piecewise(decoder, self._static, size, activations, capture)
                if size in self._decode_sizes:
                    self._static.load(pad_decodes(EMPTY_BATCH, size, pages))
                    self._decodes[size] = capture_decodes(decoder, self._static, size, longest, logits, capture)

    def run(self, batch: HostStep) -> torch.Tensor | None:
        """Logits (sequences, vocab) of `batch`, which the next call overwrites; None where no graph holds it."""
        tokens = len(batch.arrays.token_ids)
        decode_size = None if batch.chunks else bucket_for(tokens, self._decode_sizes)
        size = bucket_for(tokens, self._sizes) if decode_size is None else decode_size
        if size is None:
            return None
        padded = (pad_rows if decode_size is None else pad_decodes)(batch, size, self._dummy_page)
        if not self._static.holds(padded):
            return None
        self._static.load(padded)
        if decode_size is None:
            return self._piecewise[size].run(self._static.step(padded), tokens)
        graph = self._decodes[size]
        graph.replay()
        return graph.logits[:tokens]

    def _compile_attention(self, decoder: Decoder, longest: int) -> None:
        """Runs the attention that no graph holds once with whole keys and, where a context is long enough, once with
        split keys: its kernels compile here and not in a timed iteration.
        """
        for start in {0, min(longest - 1, SPLIT_CONTEXT)}:
            work = SequenceWork([0], start, [self._dummy_page] * pages_for(start + 1))
            batch = lay_out([work], [work], vocab_size=1, pages=self._dummy_page + 1)
            decoder.forward(send(batch, decoder.weights.embedding.device))
