"""Everything that is captured for an engine, and which of it a batch takes."""

from __future__ import annotations

import torch

from ..host_step import HostStep, SequenceWork, lay_out
from ..kv_cache import pages_for
from ..model import Decoder
from ..step import send
from .capture import Capture
from .decode_graph import DecodeGraph, capture_decodes
from .padding import NOTHING, pad_decodes, pad_rows
from .piecewise import Handover, Pieces, capture_pieces
from .sizes import CAPTURE_SIZES, DECODE_SIZES, bucket_for
from .static_step import StaticStep

# Attention of a few rows has its keys split from less than this on, on a device that they do not fill.
SPLIT_CONTEXT = 4096


class CapturedPasses:
    """Of each size the pieces and, where the backend allows it, the pass of that many decodes; the largest first, so
    that the smaller ones fit into what it left of the one memory pool.

    pages: of the sequences; the cache has one more, the last, which padding is written to. longest: the most tokens a
    decode's context is expected to have, which splits of its keys are chosen for.
    """

    def __init__(self, decoder: Decoder, pages: int, longest: int, capture: Capture) -> None:
        self._dummy_page = pages
        self._sizes = CAPTURE_SIZES
        self._decode_sizes = DECODE_SIZES if decoder.backend.CAPTURES_DECODES else ()
        self._pieces: dict[int, Pieces] = {}
        self._decodes: dict[int, DecodeGraph] = {}
        embedding, largest = decoder.weights.embedding, self._sizes[-1]
        device, dtype = embedding.device, embedding.dtype
        # Block tables of a group of decodes are padded, by a third or by 9 pages a decode at the most. More entries
        # than this mean that sequences share pages.
        self._static = StaticStep(largest, 2 * pages + 16 * largest, device)
        handover = Handover.allocate(decoder.config, largest, device, dtype)
        with torch.inference_mode():
            self._compile_attention(decoder, longest)
            logits = embedding.new_empty((max(self._decode_sizes, default=0), decoder.config.vocab_size))
            for size in reversed(self._sizes):
                self._static.load(pad_rows(NOTHING, size, pages))
                self._pieces[size] = capture_pieces(decoder, self._static, size, handover, capture)
                if size in self._decode_sizes:
                    self._static.load(pad_decodes(NOTHING, size, pages))
                    self._decodes[size] = capture_decodes(decoder, self._static, size, longest, logits, capture)

    def run(self, batch: HostStep) -> torch.Tensor | None:
        """Logits (sequences, vocab) of `batch`, overwritten by the next call; None where nothing captured holds it."""
        tokens = len(batch.token_ids)
        size = None if batch.chunks else bucket_for(tokens, self._decode_sizes)
        if size is not None:
            padded = pad_decodes(batch, size, self._dummy_page)
            if not self._static.holds(padded):
                return None
            self._static.load(padded)
            graph = self._decodes[size]
            graph.replay()
            return graph.logits[:tokens]
        size = bucket_for(tokens, self._sizes)
        if size is None:
            return None
        padded = pad_rows(batch, size, self._dummy_page)
        if not self._static.holds(padded):
            return None
        self._static.load(padded)
        return self._pieces[size].run(self._static.views(padded), tokens)

    def _compile_attention(self, decoder: Decoder, longest: int) -> None:
        """Attention of chunks is in no graph, nor is that of decodes beside them: here each is called once with its
        keys whole and, where a context is long enough for that, split.
        """
        for start in {0, min(longest - 1, SPLIT_CONTEXT)}:
            work = SequenceWork([0], start, [self._dummy_page] * pages_for(start + 1))
            batch = lay_out([work], [work], vocab_size=1, pages=self._dummy_page + 1)
            decoder.forward(send(batch, decoder.weights.embedding.device))
