"""Shapes of the models that can be measured, and presets of them. Imports no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..files.errors import UsageError

# Chunks of one iteration for which a KV pool has room: each leaves most of a last page unused.
MOST_CHUNKS = 4
SHAPE_SIZES = ("vocab_size", "hidden_size", "layers", "heads", "kv_heads", "head_dim", "intermediate_size")


@dataclass(frozen=True, slots=True)
class Llama3RopeScaling:
    """`rope_type: llama3` of Llama 3.1 and later: slow pairs turn `factor` times slower, fast ones as before.

    A pair is fast when it turns high_freq_factor times or more within original_context_length tokens and slow when
    low_freq_factor times or less; between the two the slowing fades. Raises UsageError for impossible values.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context_length: int

    def __post_init__(self) -> None:
        for field in ("factor", "low_freq_factor", "high_freq_factor", "original_context_length"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise UsageError(f"rope scaling llama3: {field} is {value!r}; expected a finite number > 0")
        if self.low_freq_factor >= self.high_freq_factor:
            raise UsageError(
                f"rope scaling llama3: low_freq_factor is {self.low_freq_factor} and high_freq_factor is "
                f"{self.high_freq_factor}; expected the low one to be smaller, since slowing fades between them"
            )


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Shape of a Llama-family decoder: GQA, RoPE, RMSNorm, SwiGLU.

    qkv_bias: biases on queries, keys and values and nowhere else (Qwen2, Qwen2.5). qk_norm: RMSNorm of each query and
    key head before RoPE, one weight for all heads (Qwen3). context_length: longest request; the engine itself is
    bounded by its KV pool, because one measured chunk may stand for several requests. Raises UsageError for impossible
    sizes.
    """

    name: str
    vocab_size: int
    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    rope_theta: float
    rms_norm_eps: float
    context_length: int
    tie_embeddings: bool
    qkv_bias: bool = False
    qk_norm: bool = False
    rope_scaling: Llama3RopeScaling | None = None

    def __post_init__(self) -> None:
        for field in (*SHAPE_SIZES, "context_length"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UsageError(f"model {self.name}: {field} is {value!r}; expected a whole number >= 1")
        for field in ("rope_theta", "rms_norm_eps"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise UsageError(f"model {self.name}: {field} is {value!r}; expected a finite number > 0")
        if self.heads % self.kv_heads:
            raise UsageError(
                f"model {self.name}: heads is {self.heads} and kv_heads is {self.kv_heads}; expected heads "
                "to be a multiple of kv_heads, since each KV head serves equally many query heads"
            )
        if self.head_dim % 2:
            raise UsageError(
                f"model {self.name}: head_dim is {self.head_dim}; expected an even number, since RoPE rotates pairs"
            )

    @property
    def query_size(self) -> int:
        """Width of all query heads together."""
        return self.heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Width of all key (or value) heads together."""
        return self.kv_heads * self.head_dim

    @property
    def parameter_count(self) -> int:
        """Weights of the whole model; tied embeddings count once."""
        attention = self.hidden_size * (2 * self.query_size + 2 * self.kv_size)
        attention += (self.query_size + 2 * self.kv_size) * self.qkv_bias + 2 * self.head_dim * self.qk_norm
        mlp = 3 * self.hidden_size * self.intermediate_size
        embeddings = self.vocab_size * self.hidden_size * (1 if self.tie_embeddings else 2)
        return self.layers * (attention + mlp + 2 * self.hidden_size) + embeddings + self.hidden_size

    def kv_bytes_per_token(self, dtype_bytes: int) -> int:
        """Bytes that one token's keys and values take over all layers."""
        return self.layers * 2 * self.kv_size * dtype_bytes

    def shape(self) -> dict[str, int | float | bool | str]:
        """The sizes that decide the work of an iteration (`Fingerprint.model_shape`).

        rope_theta, rope_scaling, rms_norm_eps, context_length and tie_embeddings change values or capacity but no work.
        """
        return {field: getattr(self, field) for field in (*SHAPE_SIZES, "qkv_bias", "qk_norm")}


PRESETS: dict[str, ModelConfig] = {
    config.name: config
    for config in (
        # The CPU default: large enough that matrix products and KV reads, not Python, fill an iteration.
        ModelConfig(
            name="tiny",
            vocab_size=2048,
            hidden_size=128,
            layers=4,
            heads=4,
            kv_heads=2,
            head_dim=32,
            intermediate_size=384,
            rope_theta=10_000.0,
            rms_norm_eps=1e-5,
            context_length=4096,
            tie_embeddings=True,
        ),
        ModelConfig(
            name="llama-3.2-1b",
            vocab_size=128_256,
            hidden_size=2048,
            layers=16,
            heads=32,
            kv_heads=8,
            head_dim=64,
            intermediate_size=8192,
            rope_theta=500_000.0,
            rms_norm_eps=1e-5,
            context_length=131_072,
            tie_embeddings=True,
            rope_scaling=Llama3RopeScaling(
                factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, original_context_length=8192
            ),
        ),
        ModelConfig(
            name="llama-3-8b",
            vocab_size=128_256,
            hidden_size=4096,
            layers=32,
            heads=32,
            kv_heads=8,
            head_dim=128,
            intermediate_size=14_336,
            rope_theta=500_000.0,
            rms_norm_eps=1e-5,
            context_length=8192,
            tie_embeddings=False,
        ),
        ModelConfig(
            name="qwen2.5-7b",
            vocab_size=152_064,
            hidden_size=3584,
            layers=28,
            heads=28,
            kv_heads=4,
            head_dim=128,
            intermediate_size=18_944,
            rope_theta=1_000_000.0,
            rms_norm_eps=1e-6,
            context_length=131_072,
            tie_embeddings=False,
            qkv_bias=True,
        ),
        ModelConfig(
            name="qwen3-8b",
            vocab_size=151_936,
            hidden_size=4096,
            layers=36,
            heads=32,
            kv_heads=8,
            head_dim=128,
            intermediate_size=12_288,
            rope_theta=1_000_000.0,
            rms_norm_eps=1e-6,
            context_length=40_960,
            tie_embeddings=False,
            qk_norm=True,
        ),
    )
}
