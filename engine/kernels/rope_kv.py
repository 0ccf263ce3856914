"""Head norms (Qwen3), rotary position embedding (half-split layout) and the write of keys and values into their pages,
in one pass over the projected queries, keys and values.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import triton
import triton.language as tl

from . import Variant, options, padded

if TYPE_CHECKING:
    import torch

    from ..attention.base import HeadNorms
    from ..kv_cache import LayerCache


@triton.jit(do_not_specialize_on_alignment=["slots"])
def _rope_kv(
    heads,  # (tokens, HEADS + 2 KV_HEADS, HEAD_DIM), rows row_stride apart; queries are written in place
    new_values,  # (tokens, KV_HEADS, HEAD_DIM), rows value_stride apart
    query_norm,  # (HEAD_DIM,), read where NORM
    key_norm,  # (HEAD_DIM,), read where NORM
    cos,  # (tokens, HEAD_DIM) float32; the halves are equal, and the first is read
    signed_sin,  # (tokens, HEAD_DIM) float32; the second half is the sine
    slots,  # (tokens,) int64
    keys,  # (slots, KV_HEADS, HEAD_DIM)
    values,
    row_stride,
    value_stride,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    EPS: tl.constexpr,
    BLOCK_H: tl.constexpr,
    NORM: tl.constexpr,
):
    SHARED: tl.constexpr = HEADS // KV_HEADS
    HALF: tl.constexpr = HEAD_DIM // 2
    token = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1)
    # The query heads of this KV head, then the key head itself.
    lane = tl.arange(0, BLOCK_H)
    head = tl.where(lane < SHARED, kv_head * SHARED + lane, HEADS + kv_head)
    dims = tl.arange(0, HALF)
    first = heads + token * row_stride + head[:, None] * HEAD_DIM + dims[None, :]
    real = (lane <= SHARED)[:, None]
    left = tl.load(first, mask=real, other=0.0).to(tl.float32)
    right = tl.load(first + HALF, mask=real, other=0.0).to(tl.float32)
    is_query = (lane < SHARED)[:, None]
    if NORM:
        # Heads lie in rows: a norm is a sum along one, and the lanes behind the key head are not stored.
        scale = tl.rsqrt(tl.sum(left * left + right * right, 1) / HEAD_DIM + EPS)[:, None]
        query_weights, key_weights = query_norm + dims[None, :], key_norm + dims[None, :]
        left *= scale * tl.where(is_query, tl.load(query_weights), tl.load(key_weights)).to(tl.float32)
        right *= scale * tl.where(is_query, tl.load(query_weights + HALF), tl.load(key_weights + HALF)).to(tl.float32)
    cosine = tl.load(cos + token * HEAD_DIM + dims)[None, :]
    sine = tl.load(signed_sin + token * HEAD_DIM + HALF + dims)[None, :]
    turned_left = (left * cosine - right * sine).to(keys.dtype.element_ty)
    turned_right = (right * cosine + left * sine).to(keys.dtype.element_ty)
    tl.store(first, turned_left, mask=is_query)
    tl.store(first + HALF, turned_right, mask=is_query)

    # A slot times its size passes 2^31 in a large pool: slots are int64.
    target = tl.load(slots + token) * (KV_HEADS * HEAD_DIM) + kv_head * HEAD_DIM
    is_key = (lane == SHARED)[:, None]
    key = keys + target + dims[None, :] + 0 * lane[:, None]
    tl.store(key, turned_left, mask=is_key)
    tl.store(key + HALF, turned_right, mask=is_key)
    all_dims = tl.arange(0, HEAD_DIM)
    value = tl.load(new_values + token * value_stride + kv_head * HEAD_DIM + all_dims)
    tl.store(values + target + all_dims, value)


@functools.cache
def variant(heads: int, kv_heads: int, head_dim: int, eps: float | None) -> Variant:
    """eps: of the head norms, None for a model without them."""
    return Variant(
        _rope_kv,
        {
            "HEADS": heads,
            "KV_HEADS": kv_heads,
            "HEAD_DIM": head_dim,
            "EPS": 0.0 if eps is None else eps,
            "BLOCK_H": padded(heads // kv_heads + 1),
            "NORM": eps is not None,
        },
        options(warps=2),
    )


def rope_kv(
    heads: torch.Tensor,
    norms: HeadNorms | None,
    cos: torch.Tensor,
    signed_sin: torch.Tensor,
    slots: torch.Tensor,
    cache: LayerCache,
) -> None:
    """Rotates the queries of heads (tokens, heads + 2 kv_heads, head_dim) in place, and writes the rotated keys and the
    values to rows `slots` (tokens,) of the cache. The keys in heads stay as they were.

    norms: of each query and key head, before the rotation, in float32. cos and signed_sin are `rope.rotation` in
    float32, one row a token. Tokens of heads may lie apart (stride 0).
    """
    tokens, width, head_dim = heads.shape
    kv_heads = cache.keys.shape[1] // head_dim
    values = heads[:, width - kv_heads :]
    query_norm, key_norm = (heads, heads) if norms is None else (norms.query, norms.key)
    variant(width - 2 * kv_heads, kv_heads, head_dim, None if norms is None else norms.eps).launch(
        (tokens, kv_heads),
        heads,
        values,
        query_norm,
        key_norm,
        cos,
        signed_sin,
        slots,
        cache.keys,
        cache.values,
        heads.stride(0),
        values.stride(0),
    )
