"""Operators, and their buffers: parts of one arena of random values, and pages of a one-layer engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from ...engine.config import ModelConfig
from ...engine.engine import Engine
from ...engine.host_step import SequenceWork
from ...engine.kv_cache import pages_for
from .cold_timing import Call, ColdTimer
from .results import Key, key_of

Make = Callable[["OperatorBuffers"], Call]


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator at one size. make: takes buffers and returns a call on them; each result has other buffers.

    footprint_bytes: distinct memory of one call, inputs and weights; kv_tokens: pages it needs of the pool.
    """

    family: str
    name: str
    sizes: Mapping[str, int]
    bytes_moved: int
    flops: int
    footprint_bytes: int
    make: Make = field(repr=False)
    kv_tokens: int = 0

    @property
    def key(self) -> Key:
        return key_of(self.name, dict(self.sizes))


class OperatorBuffers:
    """Buffers for operators of `config` on one device.

    arena_bytes: size of the arena of matrices and activations. kv_tokens: capacity of the pool, one layer. Both wrap
    around, so buffers are distinct as long as they fit.
    Raises DeviceUnavailableError when arena or pool do not fit the device, as the engine does.
    """

    def __init__(
        self,
        config: ModelConfig,
        device: str,
        timer: ColdTimer,
        arena_bytes: int,
        kv_tokens: int,
        seed: int = 0,
        attention: str | None = None,
    ) -> None:
        self.config = config
        self.timer = timer
        # Operators of one layer are timed, on the pool of an engine with one layer, filled with random values.
        one_layer = replace(config, layers=1)
        self.engine = Engine(
            one_layer, device=device, kv_tokens=kv_tokens, seed=seed, attention=attention, graphs=False
        )
        self.item = self.engine.dtype.itemsize
        self._rng = np.random.default_rng(seed)
        self._pages = self._rng.permutation(self.engine.allocator.pages)
        self._next_page = 0
        # The scale of the weights: products of rows and matrices keep the size of their values.
        self._arena = torch.empty(arena_bytes // self.item, device=self.engine.device, dtype=self.engine.dtype)
        generator = torch.Generator(self.engine.device).manual_seed(seed)
        self._arena.normal_(0.0, 1 / math.sqrt(config.hidden_size), generator=generator)
        self._next = 0

    def take(self, *shape: int) -> torch.Tensor:
        """The next part of the arena, as a tensor of that shape."""
        count = math.prod(shape)
        # Rows of a matrix start where wide loads can: at multiples of 256 bytes.
        step = -(-count * self.item // 256) * 256 // self.item
        if self._next + step > self._arena.numel():
            self._next = 0
        first, self._next = self._next, self._next + step
        return self._arena[first : first + count].view(shape)

    def pages(self, tokens: int) -> list[int]:
        """The next pages of the pool, in random order, for a sequence of `tokens` tokens."""
        count = pages_for(tokens)
        if self._next_page + count > len(self._pages):
            self._next_page = 0
        first, self._next_page = self._next_page, self._next_page + count
        taken: list[int] = self._pages[first : first + count].tolist()
        return taken

    def decodes(self, count: int, context_tokens: int) -> list[SequenceWork]:
        return [SequenceWork([0], context_tokens - 1, self.pages(context_tokens)) for _ in range(count)]

    def chunk(self, chunk_tokens: int, prefix_tokens: int) -> SequenceWork:
        tokens = torch.zeros(chunk_tokens, dtype=torch.int64)
        return SequenceWork(tokens, prefix_tokens, self.pages(prefix_tokens + chunk_tokens))
