"""FlashInfer's and FlashAttention 3's paged calls in plain torch, as far as the engine makes them, with the checks that
the libraries make and those that they leave to the caller.
"""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import torch

from chunkfit.engine.attention import flashinfer_paged, library

VERSIONS = {"flashinfer": "0.7.4", "flash_attn_interface": "3.0.0b1"}


def install(monkeypatch, name, version=None, **contents):
    """A module `name` that imports, of `version`; contents: by default the fake's."""
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)
    vars(module).update(contents or FAKES[name])
    monkeypatch.setitem(sys.modules, name, module)
    distribution = next(one.distribution for one in library.LIBRARIES.values() if one.module == name)
    real = library.installed_version
    version = VERSIONS[name] if version is None else version
    monkeypatch.setattr(library, "installed_version", lambda asked: version if asked == distribution else real(asked))
    for cached in (flashinfer_paged._idle, flashinfer_paged._workspace):
        cached.cache_clear()
    monkeypatch.setattr(flashinfer_paged, "WORKSPACE_BYTES", 1024)
    return module


class _Wrapper:
    """One plan at a time; `made` counts all of them."""

    made = 0

    def __init__(self, float_workspace_buffer, kv_layout="NHD", *, use_tensor_cores=False):
        assert float_workspace_buffer.dtype == torch.uint8
        assert kv_layout == "NHD"
        self.device, self.use_tensor_cores = float_workspace_buffer.device, use_tensor_cores
        self.sizes = None
        type(self).made += 1

    def _plan(self, rows, starts, pages, last, heads, kv_heads, head_dim, page_size, q_data_type, kv_data_type):
        for given in (rows, starts, pages, last):
            assert given.dtype == torch.int32
            assert given.device.type == "cpu", "the plan would wait for the device"
        assert len(rows) == len(starts) == len(last) + 1
        self.rows, self.starts, self.pages, self.last = rows, starts, pages, last
        self.sizes, self.types = (heads, kv_heads, head_dim, page_size), (q_data_type, kv_data_type)

    def run(self, q, paged_kv_cache, *, out):
        heads, kv_heads, head_dim, page_size = self.sizes
        assert q.shape == out.shape == (self.rows[-1], heads, head_dim)
        assert (q.dtype, out.dtype) == (self.types[0],) * 2
        for pool in paged_kv_cache:
            assert pool.shape[1:] == (page_size, kv_heads, head_dim)
            assert (pool.dtype, pool.device) == (self.types[1], self.device)
        for i, last in enumerate(self.last):
            assert 1 <= last <= page_size
            own = self.pages[self.starts[i] : self.starts[i + 1]].to(q.device)
            length = (len(own) - 1) * page_size + int(last)
            rows = slice(self.rows[i], self.rows[i + 1])
            out[rows] = dense(q[rows], *(pool[own].flatten(0, 1)[:length] for pool in paged_kv_cache))
        return out


class BatchDecodeWithPagedKVCacheWrapper(_Wrapper):
    made = 0

    def plan(self, indptr, indices, last_page_len, num_qo_heads, num_kv_heads, head_dim, page_size, **types):
        assert self.use_tensor_cores or num_qo_heads // num_kv_heads in (1, 2, 3, 4, 6, 8, 16)
        rows = torch.arange(len(indptr), dtype=torch.int32)
        self._plan(rows, indptr, indices, last_page_len, num_qo_heads, num_kv_heads, head_dim, page_size, **types)


class BatchPrefillWithPagedKVCacheWrapper(_Wrapper):
    made = 0

    def plan(self, qo_indptr, indptr, indices, last, heads, kv_heads, head_dim, page_size, *, causal, **types):
        assert causal
        self._plan(qo_indptr, indptr, indices, last, heads, kv_heads, head_dim, page_size, **types)


def flash_attn_with_kvcache(q, k_cache, v_cache, *, cache_seqlens, page_table, cu_seqlens_q, max_seqlen_q, causal):
    """q (rows, heads, head_dim) -> the same shape. The mask is aligned at the lower right."""
    for given in (cache_seqlens, page_table, cu_seqlens_q):
        assert given.dtype == torch.int32
        assert given.device == q.device
        assert given.is_contiguous()
    assert causal
    assert k_cache.shape == v_cache.shape
    assert len(page_table) == len(cache_seqlens) == len(cu_seqlens_q) - 1
    assert cu_seqlens_q[-1] == len(q)
    assert max_seqlen_q == cu_seqlens_q.diff().max()
    out = torch.full_like(q, torch.nan)
    for i, length in enumerate(cache_seqlens):
        own = page_table[i, : -(-int(length) // k_cache.shape[1])]
        rows = slice(cu_seqlens_q[i], cu_seqlens_q[i + 1])
        out[rows] = dense(q[rows], *(pool[own].flatten(0, 1)[:length] for pool in (k_cache, v_cache)))
    return out


def dense(queries, keys, values):
    """queries (rows, heads, head_dim), the last of the sequence that keys, values (length, kv_heads, head_dim) are."""
    rows, length = len(queries), len(keys)
    shared = queries.shape[1] // keys.shape[1]
    scores = torch.einsum("qhd,khd->hqk", queries, keys.repeat_interleave(shared, 1)) / queries.shape[2] ** 0.5
    seen = torch.ones(rows, length, dtype=torch.bool, device=queries.device).tril(length - rows)
    weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
    return torch.einsum("hqk,khd->qhd", weights, values.repeat_interleave(shared, 1))


FAKES = {
    "flashinfer": {
        one.__name__: one for one in (BatchDecodeWithPagedKVCacheWrapper, BatchPrefillWithPagedKVCacheWrapper)
    },
    "flash_attn_interface": {"flash_attn_with_kvcache": flash_attn_with_kvcache},
}
