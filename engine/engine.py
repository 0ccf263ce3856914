"""The engine: weights, a KV pool and one iteration at a time."""

from __future__ import annotations

import ctypes
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import torch

from ..files.errors import ChunkfitError, DeviceMemoryError, DeviceUnavailableError, UsageError
from .attention import BACKENDS, choose
from .config import ModelConfig
from .facts import memory_bytes, require_device
from .graphs import CAPTURE_SIZES
from .graphs.capture import CAPTURES
from .graphs.runner import GraphRunner
from .host_step import SequenceWork, lay_out
from .kv_cache import PAGE_SIZE, PageAllocator, allocate_kv_cache, pages_for
from .memory import MemoryPlan
from .model import Decoder, random_weights
from .step import send

# From malloc.h of glibc.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
LARGEST_MMAP_THRESHOLD = 32 << 20  # glibc refuses more
DEFAULT_DTYPES = {"cuda": torch.bfloat16, "cpu": torch.float32}


class Engine:
    """A decoder with random weights on one device.

    device: "cpu", "cuda" or "cuda:N". dtype: of weights and KV, bfloat16 on cuda and float32 on cpu unless
    given. kv_tokens: capacity of the KV pool, rounded up to whole pages; it alone bounds how long a
    sequence may be. None takes what the weights, the activations of the largest batch and a reserve leave
    of the free memory (`MemoryPlan`). seed: of weights and of the values the pool is filled with (`fill_kv`).
    attention: the backend, one of `attention.BACKENDS`; unless given, triton on cuda where it is installed and can
    run the model, else torch. graphs: whether CUDA graphs are captured and used; on a CPU there are none.
    capture_sizes: what was captured.
    Raises DeviceUnavailableError when the device is not there or cannot hold weights, KV pool and graphs, with the
    arithmetic.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        device: str,
        dtype: torch.dtype | None = None,
        kv_tokens: int | None = None,
        seed: int = 0,
        fill_kv: bool = True,
        attention: str | None = None,
        graphs: bool = True,
    ) -> None:
        if kv_tokens is not None and kv_tokens < 1:
            raise UsageError(f"Engine: kv_tokens is {kv_tokens}; expected room for at least 1 token")
        self.config = config
        self.device = require_device(device)
        self.dtype = DEFAULT_DTYPES[self.device.type] if dtype is None else dtype
        self.attention = choose(attention, config, self.device, self.dtype)
        if self.device.type == "cpu":
            keep_freed_memory()
        memory = MemoryPlan(config, self.device.type, self.dtype.itemsize, memory_bytes(self.device)[1])
        pages = pages_for(memory.kv_tokens() if kv_tokens is None else kv_tokens)
        self.kv_tokens = pages * PAGE_SIZE
        arithmetic = memory.arithmetic(self.kv_tokens)
        if not memory.holds(self.kv_tokens):
            raise DeviceUnavailableError(arithmetic)
        with _out_of_memory(lambda reason: DeviceUnavailableError(f"{arithmetic} ({reason})")):
            generator = torch.Generator(self.device).manual_seed(seed)
            self.weights = random_weights(config, self.device, self.dtype, generator)
            # One page more than the allocator has, for padding.
            self.cache = allocate_kv_cache(config, pages + 1, self.device, self.dtype, generator if fill_kv else None)
            self.allocator = PageAllocator(pages)
        self._decoder = Decoder(config, self.weights, self.cache, BACKENDS[self.attention].load())
        self._graphs: GraphRunner | None = None
        self.capture_sizes: tuple[int, ...] = ()
        if graphs and self.device.type in CAPTURES:
            with _out_of_memory(lambda reason: DeviceUnavailableError(memory.not_captured(self.kv_tokens, reason))):
                capture = CAPTURES[self.device.type](self.device)
                longest = min(config.context_length, self.kv_tokens)
                self._graphs = GraphRunner(self._decoder, pages, longest, capture)
            self.capture_sizes = CAPTURE_SIZES

    @contextmanager
    def eager(self) -> Iterator[None]:
        """Inside, every pass runs without CUDA graphs, on the same weights and pages."""
        graphs, self._graphs = self._graphs, None
        try:
            yield
        finally:
            self._graphs = graphs

    def iterate(self, decodes: Sequence[SequenceWork], chunks: Sequence[SequenceWork]) -> list[int]:
        """One iteration: computes all new tokens, writes their KV and samples the next token of every
        sequence (greedily), decodes first, then chunks.

        On cuda the host waits once, for the sampled tokens. Raises UsageError for work that cannot be
        meant and DeviceMemoryError when the batch does not fit; the engine can be used again after both.
        """
        with self._guard(decodes, chunks), torch.inference_mode():
            tokens: list[int] = self._forward(decodes, chunks).argmax(dim=-1).tolist()
        return tokens

    def logits(self, decodes: Sequence[SequenceWork], chunks: Sequence[SequenceWork]) -> torch.Tensor:
        """Logits (sequences, vocab_size) from which `iterate` samples, on the engine's device. Writes KV too."""
        with self._guard(decodes, chunks), torch.inference_mode():
            return self._forward(decodes, chunks).clone()

    def _forward(self, decodes: Sequence[SequenceWork], chunks: Sequence[SequenceWork]) -> torch.Tensor:
        """Logits that the next call may overwrite."""
        batch = lay_out(decodes, chunks, vocab_size=self.config.vocab_size, pages=self.allocator.pages)
        logits = None if self._graphs is None else self._graphs.run(batch)
        return self._decoder.forward(send(batch, self.device)) if logits is None else logits

    def _guard(self, decodes: Sequence[SequenceWork], chunks: Sequence[SequenceWork]) -> AbstractContextManager[None]:
        def describe(reason: str) -> ChunkfitError:
            contexts = sum(work.start + 1 for work in decodes)
            chunk_tokens = sum(len(work.token_ids) for work in chunks)
            prefix_tokens = sum(work.start for work in chunks)
            return DeviceMemoryError(
                f"iteration on {self.device}: out of memory with {len(decodes):,} decodes of {contexts:,} "
                f"context tokens in all and {len(chunks):,} chunks of {chunk_tokens:,} tokens after "
                f"{prefix_tokens:,} prefix tokens ({reason}); expected a batch that fits beside the weights "
                "and the KV pool: make the batch smaller or give the engine fewer kv_tokens"
            )

        return _out_of_memory(describe)


def keep_freed_memory() -> None:
    """Tells glibc's malloc not to return freed memory to the kernel, for the whole process; does nothing elsewhere.

    On a GPU torch reuses freed memory, on a CPU it does not: depending on the history of the heap, tensors of some
    megabytes are mapped and faulted in anew in every layer. That made 32 decodes of 1,024 tokens cost 25 ms instead
    of 8, and more than the same decodes with a chunk.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGEST_MMAP_THRESHOLD)
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


@contextmanager
def _out_of_memory(describe: Callable[[str], ChunkfitError]) -> Iterator[None]:
    """Raises `describe(first line)` for the errors by which torch and Python report exhausted memory."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        # On the CPU torch raises a plain RuntimeError, and so does CUDA where it makes a graph.
        out_of_memory = "allocate memory" in str(error) or "out of memory" in str(error)
        if not isinstance(error, torch.OutOfMemoryError | MemoryError) and not out_of_memory:
            raise
        # The frames of the failed pass hold its tensors, and the error holds the frames.
        traceback.clear_frames(error.__traceback__)
        raise describe(reason) from None
