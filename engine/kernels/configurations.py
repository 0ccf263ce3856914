"""Every compiled form of a kernel that the engine can choose for a model: what is compiled without a GPU is
what runs on one.
"""

from __future__ import annotations

from . import chunk_attention, decode_attention, elementwise, online_softmax, rope_kv
from .variant import Variant


def configurations(
    *,
    heads: int,
    kv_heads: int,
    head_dim: int,
    hidden_size: int,
    intermediate_size: int,
    eps: float,
    qk_norm: bool,
    page_size: int,
    itemsize: int,
    capability: int,
) -> dict[str, Variant]:
    """Variants by name, for a model of that shape, `itemsize` bytes an element, on a GPU of that major capability."""
    shape = (heads, kv_heads, head_dim, page_size, itemsize)
    return {
        "rms_norm": elementwise.rms_norm_variant(hidden_size, eps, add=False),
        "rms_norm, add": elementwise.rms_norm_variant(hidden_size, eps, add=True),
        "rope_kv": rope_kv.variant(heads, kv_heads, head_dim, eps if qk_norm else None),
        "silu_mul": elementwise.silu_mul_variant(intermediate_size),
        "decode_attention": decode_attention.variant(*shape, split=False),
        "decode_attention, split": decode_attention.variant(*shape, split=True),
        "chunk_attention": chunk_attention.variant(*shape, capability, split=False),
        "chunk_attention, split": chunk_attention.variant(*shape, capability, split=True),
        "split_reduction": online_softmax.reduction_variant(heads, head_dim),
    }
