import math
from dataclasses import replace

import pytest
import torch

from chunkfit.engine import PRESETS, Engine, ModelConfig, SequenceWork
from chunkfit.engine import engine as engine_module
from chunkfit.files.errors import DeviceMemoryError, DeviceUnavailableError, UsageError

SHAPE = ModelConfig(
    name="test",
    vocab_size=64,
    hidden_size=16,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=8,
    intermediate_size=24,
    rope_theta=10_000.0,
    rms_norm_eps=1e-5,
    context_length=256,
    tie_embeddings=True,
)


@pytest.fixture(scope="module")
def engine():
    return Engine(SHAPE, device="cpu", kv_tokens=500)


def test_capacity_and_defaults(engine):
    assert (engine.kv_tokens, engine.allocator.pages) == (512, 32)
    assert engine.dtype == torch.float32
    assert engine.device == torch.device("cpu")


def test_iterate_samples_the_largest_logit_decodes_first(engine):
    decodes = [SequenceWork([5], 40, [0, 1, 2]), SequenceWork([6], 3, [3])]
    chunks = [SequenceWork(torch.arange(20), 0, [4, 5])]
    sampled = engine.iterate(decodes, chunks)
    logits = engine.logits(decodes, chunks)
    assert sampled == logits.argmax(-1).tolist()
    assert len(set(logits.amax(-1).tolist())) == 3  # three sequences, three answers


def test_weights_and_pool_are_random_and_seeded():
    first, same, other = (Engine(SHAPE, device="cpu", kv_tokens=64, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.weights.layers[1].down, same.weights.layers[1].down)
    assert torch.equal(first.cache.keys, same.cache.keys)
    assert not torch.equal(first.weights.layers[1].down, other.weights.layers[1].down)
    layer = first.weights.layers[0]
    for matrix, inputs in ((layer.query_key_value, 16), (layer.attention_out, 32), (layer.down, 24)):
        assert matrix.std().item() == pytest.approx(1 / math.sqrt(inputs), rel=0.15)
        assert matrix.count_nonzero() == matrix.numel()
    assert (layer.mlp_norm - 1).abs().max() < 0.2
    assert first.weights.lm_head is first.weights.embedding
    assert first.cache.values.std().item() == pytest.approx(1, rel=0.1)
    empty = Engine(SHAPE, device="cpu", kv_tokens=64, fill_kv=False)
    assert empty.cache.keys.count_nonzero() == 0


def test_activations_keep_their_size():
    shape = PRESETS["tiny"]
    logits = Engine(shape, device="cpu", kv_tokens=512).logits([], [SequenceWork(list(range(200)), 0, range(13))])
    assert 0.3 < logits.std().item() < 3


@pytest.mark.parametrize(
    ("decodes", "chunks", "message"),
    [
        ([], [], "no decodes and no chunks"),
        ([SequenceWork([1], 0, [0]), SequenceWork([1, 2], 0, [0])], [], "decode 1: 2 token ids; expected exactly 1"),
        ([], [SequenceWork([], 0, [0])], "chunk 0: no token ids"),
        ([SequenceWork([1], -1, [0])], [], "decode 0: start is -1"),
        ([SequenceWork([1], 16, [0])], [], "decode 0: 1 pages of 16 tokens; expected at least 2"),
        ([], [SequenceWork([1, 2], 15, [0])], "chunk 0: 1 pages of 16 tokens; expected at least 2"),
        ([SequenceWork([1], 0, [32])], [], "page id 32; the KV cache has pages 0 to 31"),
        ([], [SequenceWork([1], 20, [-1, 3])], "page id -1"),
        ([SequenceWork([64], 0, [0])], [], "token id 64; the vocabulary has 0 to 63"),
        ([], [SequenceWork([1, -2], 0, [0])], "token id -2"),
        ([], [SequenceWork(torch.empty(3, dtype=torch.int64, device="meta"), 0, [0])], "chunk 0: token ids on meta"),
    ],
)
def test_work_that_cannot_be_meant(engine, decodes, chunks, message):
    with pytest.raises(UsageError, match=message):
        engine.iterate(decodes, chunks)


def test_pages_past_what_is_needed_are_allowed(engine):
    work = SequenceWork([3], 5, [7])
    longer = SequenceWork([3], 5, [7, 31, 2])
    assert torch.equal(engine.logits([work], []), engine.logits([longer], []))


def test_kv_tokens_must_hold_something():
    with pytest.raises(UsageError, match="kv_tokens is 0"):
        Engine(SHAPE, device="cpu", kv_tokens=0)


def test_unknown_device():
    for name in ("tpu", "mps", "cuda:x", ""):
        with pytest.raises(UsageError, match="expected cpu, cuda or cuda:N"):
            Engine(SHAPE, device=name, kv_tokens=16)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_cuda_without_cuda():
    with pytest.raises(DeviceUnavailableError, match=r"'cuda': torch .*; expected a .*or use device cpu"):
        Engine(SHAPE, device="cuda", kv_tokens=16)


def test_what_cannot_fit_is_refused_with_the_arithmetic():
    with pytest.raises(DeviceUnavailableError) as caught:
        Engine(PRESETS["llama-3-8b"], device="cpu", kv_tokens=10**12)
    message = str(caught.value)
    assert "weights 29.92 GiB (8,030,261,248 parameters x 4 bytes)" in message
    assert "1,000,000,000,000 tokens x 262,144 bytes" in message
    assert "free" in message


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nmore"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
        MemoryError(),
    ],
)
def test_out_of_memory_names_the_batch_and_leaves_the_engine_usable(engine, monkeypatch, error):
    decodes = [SequenceWork([1], 30, [0, 1]), SequenceWork([1], 9, [2])]
    chunks = [SequenceWork([1, 2, 3], 7, [3])]

    def fail(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(engine_module.Decoder, "forward", fail)
        with pytest.raises(DeviceMemoryError) as caught:
            engine.iterate(decodes, chunks)
    assert "2 decodes of 41 context tokens" in str(caught.value)
    assert "1 chunks of 3 tokens after 7 prefix tokens" in str(caught.value)
    assert len(engine.iterate(decodes, chunks)) == 3

    monkeypatch.setattr(engine_module, "random_weights", fail)
    with pytest.raises(DeviceUnavailableError, match=r"weights .* KV pool"):
        Engine(SHAPE, device="cpu", kv_tokens=16)


def test_a_real_failed_allocation_is_out_of_memory(monkeypatch):
    monkeypatch.setattr(engine_module, "memory_bytes", lambda _: (1 << 62, 1 << 62))
    huge = 1 << 50  # 2^54 pages would take their ids alone: the tensors fail first
    with pytest.raises(DeviceUnavailableError, match="KV pool"):
        Engine(SHAPE, device="cpu", kv_tokens=huge)


def test_other_errors_pass_through(engine, monkeypatch):
    def fail(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr(engine_module.Decoder, "forward", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        engine.iterate([SequenceWork([1], 0, [0])], [])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; torch sees none")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cuda_agrees_with_cpu(dtype):
    gpu = Engine(SHAPE, device="cuda", dtype=dtype, kv_tokens=2048)
    cpu = Engine(SHAPE, device="cpu", dtype=torch.float64, kv_tokens=2048)
    for name in ("embedding", "final_norm", "lm_head"):
        getattr(cpu.weights, name).copy_(getattr(gpu.weights, name))
    for mine, theirs in zip(cpu.weights.layers, gpu.weights.layers, strict=True):
        for name in ("attention_norm", "query_key_value", "attention_out", "mlp_norm", "gate_up", "down"):
            getattr(mine, name).copy_(getattr(theirs, name))
    cpu.cache.keys.copy_(gpu.cache.keys)
    cpu.cache.values.copy_(gpu.cache.values)
    decodes = [SequenceWork([1], 20, [0, 1]), SequenceWork([2], 200, list(range(2, 15)))]
    chunks = [SequenceWork([3] * 30, 7, [20, 21, 22]), SequenceWork([4] * 600, 0, list(range(23, 61)))]
    tolerance = 5e-3 if dtype == torch.float32 else 0.15
    torch.testing.assert_close(
        gpu.logits(decodes, chunks).double().cpu(), cpu.logits(decodes, chunks), rtol=0, atol=tolerance
    )
    assert len(gpu.iterate(decodes, chunks)) == 4


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; torch sees none")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("attention", ["torch", "triton"])
def test_the_host_waits_only_for_the_tokens(attention):
    gpu = Engine(replace(SHAPE, head_dim=32), device="cuda", kv_tokens=2048, attention=attention)
    decodes, chunks = [SequenceWork([1], 20, [0, 1])], [SequenceWork([3] * 30, 7, [20, 21, 22])]
    gpu.logits(decodes, chunks)
    torch.cuda.set_sync_debug_mode("error")
    try:
        gpu.logits(decodes, chunks)
    finally:
        torch.cuda.set_sync_debug_mode("default")
