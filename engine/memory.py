"""Memory of a device: one arithmetic for the engine's KV pool and for the domain that is measured."""

from __future__ import annotations

from dataclasses import dataclass

from ..files.errors import DeviceUnavailableError
from .config import MOST_CHUNKS, ModelConfig
from .graphs import CAPTURE_SIZES, DECODE_SIZES
from .host_step import GROUP_TOKENS
from .kv_cache import PAGE_SIZE

# Share of the free memory that is left alone. On a GPU: the allocator's fragmentation, workspaces of matrix
# products, the nodes of captured graphs. On a host: whatever else runs there.
RESERVE_SHARE = {"cuda": 0.10, "cpu": 0.50}
# Rows of the causal mask that attention in plain torch operations makes.
_MASK_ROWS = 512


@dataclass(frozen=True, slots=True)
class LargestBatch:
    """The largest iteration that is planned for: memory has to hold its activations beside weights and KV."""

    decodes: int
    context_tokens: int  # of each decode
    chunk_tokens: int
    prefix_tokens: int

    @property
    def batch_tokens(self) -> int:
        return self.decodes + self.chunk_tokens

    @property
    def kv_tokens(self) -> int:
        """What it reads of the KV pool."""
        return self.decodes * self.context_tokens + self.prefix_tokens + self.chunk_tokens


def largest_batch(config: ModelConfig) -> LargestBatch:
    """256 decodes of 16,384 tokens and a chunk of 8,192 after a whole context, or what one request may reach."""
    length = config.context_length
    return LargestBatch(256, min(16_384, length), min(8192, length), length)


def activation_bytes(config: ModelConfig, dtype_bytes: int, batch: LargestBatch) -> int:
    """Upper bound on the activation memory of one pass over `batch` (sums tensors that are not all alive at once).

    Per token: 3 rows of hidden size, 3 of queries, 3 of keys, 4 of the MLP, the rotation. Attention in plain
    torch operations (Triton kernels need none of it): gathered keys and values of one call, slots and masks.
    Per sequence: its logits and the rows they are made of.
    """
    one_chunk = batch.prefix_tokens + batch.chunk_tokens
    gathered = max(GROUP_TOKENS, batch.context_tokens, one_chunk) * 2 * config.kv_size
    slots = batch.kv_tokens * (2 * 8 + dtype_bytes + 2)  # two int64, the mask, two bool
    mask = _MASK_ROWS * (one_chunk + 16) * (dtype_bytes + 2)
    logits = (batch.decodes + 1) * _sequence_bytes(config, dtype_bytes)
    return batch.batch_tokens * _token_bytes(config, dtype_bytes) + gathered * dtype_bytes + logits + slots + mask


def graph_bytes(config: ModelConfig, dtype_bytes: int) -> int:
    """Upper bound on the memory of captured graphs beside their nodes.

    Three parts, each less than the activations of a pass of the largest size: the static activations, the memory pool
    of the graphs, and the allocator's cache of the runs before each capture. Smaller sizes share the same memory.
    """
    passes = 3 * CAPTURE_SIZES[-1] * _token_bytes(config, dtype_bytes)
    logits = 3 * DECODE_SIZES[-1] * _sequence_bytes(config, dtype_bytes)
    return passes + logits


def _token_bytes(config: ModelConfig, dtype_bytes: int) -> int:
    row = 3 * config.hidden_size + 3 * (config.query_size + config.kv_size) + 4 * config.intermediate_size
    rotation = config.head_dim * (2 * dtype_bytes + 4 * 4)  # made in float32
    return row * dtype_bytes + rotation


def _sequence_bytes(config: ModelConfig, dtype_bytes: int) -> int:
    return (config.vocab_size + 3 * config.hidden_size) * dtype_bytes


def page_slack(sequences: int) -> int:
    """Tokens that `sequences` may leave unused, each in its last page."""
    return sequences * (PAGE_SIZE - 1)


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """What `free` bytes of a device (its kind: cuda or cpu) hold, all in bytes but the tokens."""

    config: ModelConfig
    device: str
    dtype_bytes: int
    free: int

    @property
    def reserve(self) -> int:
        return int(self.free * RESERVE_SHARE[self.device])

    @property
    def weights(self) -> int:
        return self.config.parameter_count * self.dtype_bytes

    @property
    def activations(self) -> int:
        return activation_bytes(self.config, self.dtype_bytes, largest_batch(self.config))

    @property
    def graphs(self) -> int:
        return graph_bytes(self.config, self.dtype_bytes) if self.device == "cuda" else 0

    @property
    def kv_token(self) -> int:
        return self.config.kv_bytes_per_token(self.dtype_bytes)

    def kv_tokens(self, at_least: int = PAGE_SIZE) -> int:
        """Tokens of a KV pool, whole pages, in what is left; at most what the largest batch takes when all its
        sequences have full length, since more is never used. Raises DeviceUnavailableError with the
        arithmetic when fewer than `at_least` are left.
        """
        left = self.free - self.reserve - self.weights - self.activations - self.graphs
        tokens = max(0, left // self.pool(0) - 1) * PAGE_SIZE
        batch = largest_batch(self.config)
        if tokens < at_least:
            raise DeviceUnavailableError(
                f"model {self.config.name} on {self.device}: {gib(self.free)} free - {gib(self.reserve)} reserve "
                f"({RESERVE_SHARE[self.device]:.0%}) - {self._weights()} - activations {gib(self.activations)} "
                f"({batch.decodes} decodes and a chunk of {batch.chunk_tokens:,} tokens) - graphs "
                f"{gib(self.graphs)} = {gib(left)}: room for {tokens:,} KV tokens x {self.kv_token:,} bytes and a page "
                f"of padding; expected at least {at_least:,}: free memory on the device or use a smaller model"
            )
        return min(tokens, (batch.decodes + 2) * self.config.context_length + page_slack(batch.decodes + MOST_CHUNKS))

    def pool(self, kv_tokens: int) -> int:
        """Bytes of a KV pool for whole pages of tokens, with the one page that padding is written to."""
        return self.kv_token * (kv_tokens + PAGE_SIZE)

    def holds(self, kv_tokens: int) -> bool:
        """Whether weights and a pool of `kv_tokens` fit, without room for a pass."""
        return self.weights + self.pool(kv_tokens) <= self.free

    def arithmetic(self, kv_tokens: int) -> str:
        """The arithmetic of weights and a pool of `kv_tokens`, as the start of an error."""
        return (
            f"model {self.config.name} on {self.device}: {self._needed(kv_tokens)}, free {gib(self.free)}; expected "
            "them to fit: use a smaller model, fewer kv_tokens or a device with more free memory"
        )

    def not_captured(self, kv_tokens: int, reason: str) -> str:
        """The arithmetic of weights, pool and graphs, as an error when the graphs do not fit."""
        left = self.free - self.weights - self.pool(kv_tokens)
        return (
            f"model {self.config.name} on {self.device}: out of memory while CUDA graphs were captured ({reason}): "
            f"free {gib(self.free)} - ({self._needed(kv_tokens)}) = {gib(left)}; expected about {gib(self.graphs)} for "
            "what graphs keep and room for their nodes: use fewer kv_tokens, or graphs=False for an engine without "
            "them"
        )

    def _needed(self, kv_tokens: int) -> str:
        pool = self.pool(kv_tokens)
        return (
            f"{self._weights()} + KV pool {gib(pool)} ({kv_tokens:,} tokens x {self.kv_token:,} bytes and a page of "
            f"padding) = {gib(self.weights + pool)}"
        )

    def _weights(self) -> str:
        return f"weights {gib(self.weights)} ({self.config.parameter_count:,} parameters x {self.dtype_bytes} bytes)"


def gib(size: int) -> str:
    """Bytes for a message."""
    return f"{size / 2**30:,.2f} GiB"
