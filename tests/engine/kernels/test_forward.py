"""The whole pass on the Triton kernels against the torch backend in float64, same weights and KV."""

from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from support.kernel_device import DEVICE, INTERPRETED

from chunkfit.engine import Engine, ModelConfig, SequenceWork
from chunkfit.engine.attention.base import HeadNorms
from chunkfit.engine.config import Llama3RopeScaling
from chunkfit.engine.kv_cache import pages_for

SHAPE = ModelConfig(
    name="test",
    vocab_size=64,
    hidden_size=48,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=32,
    intermediate_size=80,
    rope_theta=10_000.0,
    rms_norm_eps=1e-5,
    context_length=1024,
    tie_embeddings=True,
)
DTYPE = torch.float32 if INTERPRETED else torch.bfloat16
# Angles in float32: at position 900 they are off by 5e-5.
TOLERANCE = 1e-4 if INTERPRETED else 0.15


# All that sets the members of the family apart, at once.
QWEN = replace(SHAPE, qkv_bias=True, qk_norm=True, rope_scaling=Llama3RopeScaling(8.0, 1.0, 4.0, 256))


def pair(shape):
    tested = Engine(shape, device=DEVICE, dtype=DTYPE, kv_tokens=4096, attention="triton")
    exact = Engine(shape, device="cpu", dtype=torch.float64, kv_tokens=4096, attention="torch")
    for name in ("embedding", "final_norm", "lm_head"):
        getattr(exact.weights, name).copy_(getattr(tested.weights, name))
    for mine, theirs in zip(exact.weights.layers, tested.weights.layers, strict=True):
        for field in fields(mine):
            if (weight := getattr(mine, field.name)) is None:
                continue
            pairs = [(weight, getattr(theirs, field.name))]
            if isinstance(weight, HeadNorms):
                pairs = zip(weight[:2], pairs[0][1][:2], strict=True)
            for target, source in pairs:
                target.copy_(source)
    exact.cache.keys.copy_(tested.cache.keys)
    exact.cache.values.copy_(tested.cache.values)
    return tested, exact


@pytest.fixture
def engines():
    return pair(SHAPE)


def works(starts, counts, seed=0):
    """Sequences on pages in no order, random tokens."""
    rng = np.random.default_rng(seed)
    needed = [pages_for(start + count) for start, count in zip(starts, counts, strict=True)]
    pages = rng.permutation(256)[: sum(needed)].tolist()
    ends = np.cumsum([0, *needed]).tolist()
    return [
        SequenceWork(rng.integers(0, 64, count).tolist(), start, pages[first:last])
        for start, count, (first, last) in zip(starts, counts, pairwise(ends), strict=True)
    ]


@pytest.mark.parametrize(
    ("decodes", "chunks"),
    [
        # Three groups of decodes, in no order; chunks of one token, after a prefix, over several tiles.
        ([20, 400, 0, 350, 31], [(0, 1), (21, 30), (48, 40)]),
        ([15, 300], []),
        ([], [(0, 40)]),
        ([900], [(16, 16)]),
        # A prefix long enough for split keys, and a chunk that is not split beside it.
        ([], [(1100, 16), (5, 16)]),
    ],
)
def test_logits_and_kv(engines, decodes, chunks):
    batch = works([*decodes, *(start for start, _ in chunks)], [1] * len(decodes) + [count for _, count in chunks])
    batch = batch[: len(decodes)], batch[len(decodes) :]
    found, expected = (engine.logits(*batch).double().cpu() for engine in engines)
    torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCE)
    for name in ("keys", "values"):
        found, expected = (getattr(engine.cache, name).double().cpu() for engine in engines)
        torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCE)


def test_biases_head_norms_and_scaled_rotation():
    engines = pair(QWEN)
    decode, chunk = works([90, 30], [1, 20])
    found, expected = (engine.logits([decode], [chunk]).double().cpu() for engine in engines)
    torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCE)


def test_chunks_of_a_prompt_equal_the_prompt(engines):
    tested, _ = engines
    (prompt,) = works([0], [50])
    whole = tested.logits([], [prompt])
    for first, last in pairwise((0, 33, 34, 50)):
        parts = tested.logits([], [SequenceWork(prompt.token_ids[first:last], first, prompt.pages)])
    torch.testing.assert_close(parts, whole, rtol=0, atol=TOLERANCE)
