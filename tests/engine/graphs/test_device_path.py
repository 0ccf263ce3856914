"""The captured path of a GPU without one: fake CUDA tensors through captures, replays and the logits."""

from dataclasses import replace

import pytest
import torch
from support.fake_cuda import CUDA, fake_cuda
from support.fake_graphs import FakeCapture

from chunkfit.engine import PRESETS, SequenceWork, attention
from chunkfit.engine.graphs import runner
from chunkfit.engine.graphs.runner import GraphRunner
from chunkfit.engine.host_step import lay_out
from chunkfit.engine.kv_cache import allocate_kv_cache, pages_for
from chunkfit.engine.model import Decoder, random_weights

PAGES = 512
SIZES = (4, 512)


def work(start, count, first_page):
    return SequenceWork([1] * count, start, range(first_page, first_page + pages_for(start + count)))


DECODES = [work(20, 1, 0), work(200, 1, 2), work(900, 1, 15)]
CHUNKS = [work(7, 30, 140), work(0, 300, 150)]
BATCHES = {"decode": (DECODES, []), "prefill": ([], CHUNKS), "mixed": (DECODES, CHUNKS)}


@pytest.fixture(params=["torch", "triton"])
def backend(request, monkeypatch):
    """Of triton everything but the launches, whose tensors have to be on the GPU."""
    if request.param == "triton":
        pytest.importorskip("triton", reason="triton is not installed (it is for Linux)")
        from chunkfit.engine.attention import triton_paged
        from chunkfit.engine.kernels import Variant

        def launch(variant, grid, *arguments):
            names = variant.kernel.arg_names
            for name, value in zip(names, arguments, strict=False):
                assert isinstance(value, int) or value.device == CUDA, name

        monkeypatch.setattr(Variant, "launch", launch)
        monkeypatch.setattr(triton_paged, "_processors_and_capability", lambda device: (132, 9))
    monkeypatch.setattr(runner, "CAPTURE_SIZES", SIZES)
    monkeypatch.setattr(runner, "DECODE_SIZES", SIZES[:1])
    return attention.BACKENDS[request.param].load()


@pytest.mark.parametrize("name", ["llama-3-8b", "qwen2.5-7b", "qwen3-8b"])
def test_a_captured_pass_stays_on_the_gpu_and_waits_for_nothing(name, backend):
    config = replace(PRESETS[name], layers=2)
    with fake_cuda():
        weights = random_weights(config, CUDA, torch.bfloat16, torch.Generator())
        cache = allocate_kv_cache(config, PAGES + 1, CUDA, torch.bfloat16, None)
        capture = FakeCapture(CUDA)
        graphs = GraphRunner(Decoder(config, weights, cache, backend), PAGES, config.context_length, capture)
        whole = backend.CAPTURES_DECODES
        assert len(capture.functions) == 3 * len(SIZES) + (1 if whole else 0)
        for decodes, chunks in BATCHES.values():
            batch = lay_out(decodes, chunks, vocab_size=config.vocab_size, pages=PAGES)
            with torch.inference_mode():
                logits = graphs.run(batch)
            assert (logits.shape, logits.dtype) == ((len(decodes) + len(chunks), config.vocab_size), torch.bfloat16)
            assert logits.device == CUDA
