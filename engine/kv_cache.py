"""The paged KV cache: one pool of pages for all sequences, and the allocator of its pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from ..files.errors import DeviceMemoryError, UsageError
from .config import ModelConfig

PAGE_SIZE = 16


def pages_for(tokens: int) -> int:
    """Pages that hold `tokens` tokens."""
    return -(-tokens // PAGE_SIZE)


class LayerCache(NamedTuple):
    """Keys and values of one layer as views (slots, kv_heads * head_dim).

    Rows are flat, since on the CPU torch gathers and scatters those 40 times faster than (slots, heads, dim).
    """

    keys: torch.Tensor
    values: torch.Tensor


@dataclass(frozen=True, slots=True)
class KVCache:
    """keys, values: (layers, pages, PAGE_SIZE, kv_heads, head_dim).

    Slot s of a layer is page s // PAGE_SIZE, entry s % PAGE_SIZE. Slots are int64 throughout: at 131,072
    tokens of a large pool a flat offset passes 2^31.
    """

    keys: torch.Tensor
    values: torch.Tensor

    def layer(self, index: int) -> LayerCache:
        return LayerCache(self.keys[index].flatten(2).flatten(0, 1), self.values[index].flatten(2).flatten(0, 1))


def allocate_kv_cache(
    config: ModelConfig,
    pages: int,
    device: torch.device,
    dtype: torch.dtype,
    generator: torch.Generator | None,
) -> KVCache:
    """A pool of `pages` pages, filled with standard normal values when a generator is given.

    A pool of zeros times wrongly: kernels run faster on zeros, at lower power.
    """
    shape = (config.layers, pages, PAGE_SIZE, config.kv_heads, config.head_dim)
    cache = KVCache(torch.zeros(shape, device=device, dtype=dtype), torch.zeros(shape, device=device, dtype=dtype))
    if generator is not None:
        for pool in (cache.keys, cache.values):
            for layer in pool:
                layer.normal_(generator=generator)
    return cache


class PageAllocator:
    """Hands out page ids of a pool; the last page freed is the first one used again."""

    def __init__(self, pages: int) -> None:
        self.pages = pages
        self._free = list(range(pages - 1, -1, -1))
        self._allocated = bytearray(pages)

    @property
    def free_pages(self) -> int:
        return len(self._free)

    def allocate(self, count: int) -> list[int]:
        """`count` page ids. Raises DeviceMemoryError when fewer are free; then nothing is taken."""
        if count < 0:
            raise UsageError(f"PageAllocator.allocate: count is {count}; expected 0 or more")
        if count > len(self._free):
            raise DeviceMemoryError(
                f"KV cache: {count:,} pages of {PAGE_SIZE} tokens were asked for and {len(self._free):,} of "
                f"{self.pages:,} are free; expected at most that many: free finished sequences, ask for "
                "shorter contexts or give the engine more kv_tokens"
            )
        if count == 0:
            return []
        taken = self._free[: -count - 1 : -1]
        del self._free[-count:]
        for page in taken:
            self._allocated[page] = 1
        return taken

    def free(self, pages: Sequence[int]) -> None:
        """Gives pages back. Raises UsageError for a page that is not held; then nothing is given back."""
        wrong = [page for page in pages if not (0 <= page < self.pages and self._allocated[page])]
        if wrong or len(set(pages)) != len(pages):
            raise UsageError(
                f"PageAllocator.free: pages {wrong[:8] or list(pages)[:8]} are not held or named twice; "
                "expected ids that allocate returned, each once"
            )
        for page in pages:
            self._allocated[page] = 0
        self._free.extend(reversed(pages))
