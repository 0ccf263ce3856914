"""What is taken of the free memory, counted against passes."""

from dataclasses import replace

import pytest
import torch
from support.fake_cuda import same_memory
from support.fake_graphs import FakeCapture
from support.peak_memory import FusedAttention, PeakMemory

from chunkfit.engine import PRESETS, Engine, SequenceWork
from chunkfit.engine import engine as engine_module
from chunkfit.engine.attention import BACKENDS, torch_ops
from chunkfit.engine.config import MOST_CHUNKS
from chunkfit.engine.graphs import CAPTURE_SIZES, DECODE_SIZES
from chunkfit.engine.graphs.runner import GraphRunner
from chunkfit.engine.kv_cache import PAGE_SIZE, allocate_kv_cache, pages_for
from chunkfit.engine.memory import LargestBatch, MemoryPlan, activation_bytes, graph_bytes, largest_batch, page_slack
from chunkfit.engine.model import Decoder, random_weights
from chunkfit.engine.step import build_step
from chunkfit.files.errors import DeviceUnavailableError

GIB = 2**30
META = torch.device("meta")


def held_by_a_pass(config, batch):
    """Bytes that a pass over `batch` in bfloat16 holds at once, beside weights and KV; three layers show it all."""
    config = replace(config, layers=3)
    pages = batch.kv_tokens // PAGE_SIZE + batch.decodes + 1
    decode = SequenceWork([1], batch.context_tokens - 1, range(pages_for(batch.context_tokens)))
    chunk_pages = range(pages_for(batch.prefix_tokens + batch.chunk_tokens))
    chunk = SequenceWork([1] * batch.chunk_tokens, batch.prefix_tokens, chunk_pages)
    with torch.inference_mode():
        weights = random_weights(config, META, torch.bfloat16, torch.Generator())
        cache = allocate_kv_cache(config, pages, META, torch.bfloat16, None)
        with FusedAttention(), PeakMemory() as memory:
            step = build_step(
                [decode] * batch.decodes,
                [chunk] if batch.chunk_tokens else [],
                vocab_size=config.vocab_size,
                pages=pages,
                device=META,
            )
            Decoder(config, weights, cache, torch_ops).forward(step).argmax(dim=-1)
    return memory.peak


@pytest.mark.parametrize("name", PRESETS)
def test_activations_bound_what_a_pass_holds_and_not_by_much(name):
    config = PRESETS[name]
    largest = largest_batch(config)
    counted = activation_bytes(config, 2, largest)
    held = held_by_a_pass(config, largest)
    assert 0.5 * counted < held <= counted
    # Parts of it: decodes alone, a chunk alone and without prefix, many decodes beside one token.
    for part in (
        replace(largest, chunk_tokens=0, prefix_tokens=0),
        replace(largest, decodes=0),
        replace(largest, decodes=0, prefix_tokens=0),
        replace(largest, context_tokens=300, chunk_tokens=1, prefix_tokens=0),
    ):
        assert held_by_a_pass(config, part) <= activation_bytes(config, 2, part) <= counted


@pytest.mark.parametrize("name", ["llama-3-8b", "tiny"])
def test_graphs_keep_less_than_is_counted(name, monkeypatch):
    """What captures hold at once, on the backend that captures most; the nodes of graphs are not counted."""
    pytest.importorskip("triton", reason="triton is not installed (it is for Linux)")
    from chunkfit.engine.kernels import Variant

    monkeypatch.setattr(Variant, "launch", lambda *_: None)
    monkeypatch.setattr(torch.Tensor, "is_set_to", same_memory)
    config, capture = replace(PRESETS[name], layers=2), FakeCapture(META)
    with torch.inference_mode():
        weights = random_weights(config, META, torch.bfloat16, torch.Generator())
        cache = allocate_kv_cache(config, 1001, META, torch.bfloat16, None)
    decoder = Decoder(config, weights, cache, BACKENDS["triton"].load())
    with PeakMemory() as memory:
        passes = GraphRunner(decoder, 1000, 8192, capture)
    assert passes is not None  # alive, and with it what it keeps
    assert len(capture.functions) == 3 * len(CAPTURE_SIZES) + len(DECODE_SIZES)
    counted = graph_bytes(config, 2)
    # One of its three parts is what warm-ups leave in the allocator's cache, where nothing is alive.
    assert 0.25 * counted < memory.peak < 2 / 3 * counted


def test_what_is_counted():
    """By hand, for sizes at which each term shows."""
    config = replace(PRESETS["tiny"], vocab_size=1000, kv_heads=1)
    row = 3 * 128 + 3 * (128 + 32) + 4 * 384
    per_token = row * 2 + 32 * (2 * 2 + 16)
    expected = 7 * per_token + (65_536 * 64 + 3 * (1000 + 384)) * 2 + (2 * 9 + 11) * 20 + 512 * (11 + 16) * 4
    assert activation_bytes(config, 2, LargestBatch(2, 9, 5, 6)) == expected


def test_what_is_left_is_taken_whole():
    plan = MemoryPlan(PRESETS["llama-3-8b"], "cuda", 2, 80 * GIB)
    taken = plan.reserve + plan.weights + plan.activations + plan.graphs + plan.pool(plan.kv_tokens())
    assert 0 <= 80 * GIB - taken < PAGE_SIZE * plan.kv_token


def test_nothing_left_is_refused_with_the_arithmetic():
    with pytest.raises(DeviceUnavailableError) as caught:
        MemoryPlan(PRESETS["llama-3-8b"], "cuda", 2, 16 * GIB).kv_tokens()
    message = str(caught.value)
    assert "16.00 GiB free - 1.60 GiB reserve (10%) - weights 14.96 GiB (8,030,261,248 parameters x 2" in message
    assert "(256 decodes and a chunk of 8,192 tokens) - graphs 0.45 GiB = -2" in message
    assert "room for 0 KV tokens x 131,072 bytes and a page of padding; expected at least 16: free memory" in message


def test_an_engine_takes_what_is_free(monkeypatch):
    config = replace(PRESETS["tiny"], context_length=64)
    plan = MemoryPlan(config, "cpu", 4, 0)
    free = 2 * (plan.weights + plan.activations + 1000 * plan.kv_token)  # half of it is the reserve
    monkeypatch.setattr(engine_module, "memory_bytes", lambda _: (free, free))
    engine = Engine(config, device="cpu")
    assert engine.kv_tokens == 976  # and a page for padding
    assert engine.cache.keys.nbytes + engine.cache.values.nbytes == 992 * plan.kv_token == plan.pool(976)
    less = free - 2 * 1000 * plan.kv_token
    monkeypatch.setattr(engine_module, "memory_bytes", lambda _: (less, less))
    with pytest.raises(DeviceUnavailableError, match=r"reserve \(50%\) - weights .* = 0.00 GiB: room for 0 KV tokens"):
        Engine(config, device="cpu")


def test_an_engine_takes_no_more_than_it_can_use(monkeypatch):
    config = replace(PRESETS["tiny"], context_length=64)
    monkeypatch.setattr(engine_module, "memory_bytes", lambda _: (64 * GIB, 64 * GIB))
    assert 258 * 64 <= Engine(config, device="cpu").kv_tokens < 258 * 64 + page_slack(256 + MOST_CHUNKS + 1)
