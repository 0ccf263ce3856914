"""The path of a GPU without one: fake CUDA tensors through metadata, forward pass and sampling."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.fake_cuda import CUDA, fake_cuda
from torch._subclasses.fake_tensor import DataDependentOutputException

from chunkfit.engine import PRESETS, SequenceWork
from chunkfit.engine.attention import torch_ops
from chunkfit.engine.kv_cache import allocate_kv_cache, pages_for
from chunkfit.engine.model import Decoder, random_weights
from chunkfit.engine.step import build_step

PAGES = 512


def work(start, count, first_page):
    return SequenceWork([1] * count, start, range(first_page, first_page + pages_for(start + count)))


# Two groups of decodes, chunks in one block of queries and in several, with and without prefix.
DECODES = [work(20, 1, 0), work(200, 1, 2), work(900, 1, 15), work(800, 1, 80)]
CHUNKS = [work(7, 30, 140), work(0, 1300, 150), work(16, 1, 250)]
BATCHES = {"decode": (DECODES, []), "prefill": ([], CHUNKS), "mixed": (DECODES, CHUNKS)}


def run(config, device, decodes, chunks):
    """What `Engine.iterate` does before it waits for the sampled tokens."""
    with torch.inference_mode():
        weights = random_weights(config, device, torch.bfloat16, torch.Generator())
        cache = allocate_kv_cache(config, PAGES, device, torch.bfloat16, None)
        step = build_step(decodes, chunks, vocab_size=config.vocab_size, pages=PAGES, device=device)
        logits = Decoder(config, weights, cache, torch_ops).forward(step)
        assert (logits.shape, logits.dtype) == ((len(decodes) + len(chunks), config.vocab_size), torch.bfloat16)
        assert logits.device == device
        return logits.argmax(dim=-1)


@pytest.mark.parametrize("scene", BATCHES)
@pytest.mark.parametrize("name", PRESETS)
def test_a_pass_stays_on_the_gpu_and_waits_for_nothing(name, scene):
    """Of the true shapes but for the number of layers: fake tensors take no memory. What would wait or leave
    the device raises here, as the next test shows; `tolist` of the sampled tokens is the one wait of an
    iteration.
    """
    with fake_cuda():
        sampled = run(replace(PRESETS[name], layers=2), CUDA, *BATCHES[scene])
        assert sampled.device == CUDA
        with pytest.raises(DataDependentOutputException):
            sampled.tolist()


def reads_back(original):
    def patched(step, *rest):
        assert int(step.arrays.positions.max()) >= 0
        return original(step, *rest)

    return patched


def on_the_host(original):
    def patched(positions, frequencies, dtype):
        cos, sin = original(positions, frequencies, dtype)
        return cos, torch.ones(sin.shape, dtype=dtype)

    return patched


def by_mask(original):
    def patched(step, *rest):
        assert step.arrays.positions[step.arrays.positions > 3].shape
        return original(step, *rest)

    return patched


@pytest.mark.parametrize(
    ("name", "wrap", "error", "message"),
    [
        ("plan", reads_back, DataDependentOutputException, "_local_scalar_dense"),
        ("rotation", on_the_host, RuntimeError, "device.*cuda:0.*cpu"),
        ("plan", by_mask, TypeError, "a mask makes the host wait"),
    ],
)
def test_a_wait_or_a_tensor_on_the_host_is_caught(name, wrap, error, message, monkeypatch):
    monkeypatch.setattr(torch_ops, name, wrap(getattr(torch_ops, name)))
    with fake_cuda(), pytest.raises(error, match=message):
        run(PRESETS["tiny"], CUDA, DECODES, CHUNKS)


@pytest.mark.parametrize(
    "index", [0, -1, slice(1, 3), slice(None), slice(-2, None), (slice(None), 1), (..., None), (None, 1, ..., slice(2))]
)
def test_the_fake_indexes_as_torch_does(index):
    real = torch.arange(4 * 5 * 6).view(4, 5, 6)
    with fake_cuda():
        fake = torch.zeros(4, 5, 6, device=CUDA)[index]
    assert (fake.shape, fake.stride()) == (real[index].shape, real[index].stride())
    assert np.prod(fake.shape) > 0
