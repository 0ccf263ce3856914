"""Prefix-cache hits of a trace that names its blocks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

BLOCK_TOKENS = 512  # of Mooncake's traces


class PrefixCache:
    """Least recently used blocks out first. A prompt's blocks are there for whoever arrives after it.

    That is the most a cache can give: in a run a block is there once it has been computed.
    """

    def __init__(self, capacity_tokens: int) -> None:
        self._blocks = capacity_tokens // BLOCK_TOKENS
        self._kept: OrderedDict[int, None] = OrderedDict()

    def hit_tokens(self, blocks: Iterable[int]) -> int:
        """Tokens of the leading blocks that are kept; then the prompt's blocks are the most recent ones."""
        prompt = list(blocks)
        hits = next((i for i, block in enumerate(prompt) if block not in self._kept), len(prompt))
        for block in reversed(prompt):  # the last block goes first: without its prefix it is of no use
            self._kept[block] = None
            self._kept.move_to_end(block)
        while len(self._kept) > self._blocks:
            self._kept.popitem(last=False)
        return hits * BLOCK_TOKENS
