"""FlashInfer and FlashAttention 3 as backends, against fakes of their calls; the whole pass on them is in
kernels/test_forward.py, since the rest of it is Triton kernels.
"""

import gc
import math
from dataclasses import replace

import pytest
import torch
from support import fake_attention
from support.fake_cuda import CUDA, fake_cuda
from support.fake_graphs import FakeCapture

from chunkfit.engine import PRESETS, Engine, SequenceWork, attention
from chunkfit.engine.attention import library, torch_ops
from chunkfit.engine.facts import fingerprint
from chunkfit.engine.graphs import captured
from chunkfit.engine.graphs.capture import CAPTURES
from chunkfit.engine.kv_cache import allocate_kv_cache, pages_for
from chunkfit.engine.model import Decoder, random_weights
from chunkfit.engine.step import build_step
from chunkfit.files.errors import DeviceUnavailableError, UsageError

pytest.importorskip("triton", reason="triton is not installed (it is for Linux)")

MODULES = {"flashinfer": "flashinfer", "flash_attn": "flash_attn_interface"}
LLAMA = PRESETS["llama-3-8b"]
CPU = torch.device("cpu")
PAGES = 256
FREQUENCIES = torch.ones(32)


@pytest.fixture(params=MODULES)
def backend(request, monkeypatch):
    """Its name, with the fake of its library installed."""
    fake_attention.install(monkeypatch, MODULES[request.param])
    return request.param


def batch(decodes, chunks):
    """decodes: contexts; chunks: (prefix, tokens). Pages in no order, more of them than needed."""
    free = iter(torch.randperm(PAGES, generator=torch.Generator().manual_seed(1)).tolist())

    def work(start, tokens):
        return SequenceWork([1] * tokens, start, [next(free) for _ in range(pages_for(start + tokens) + 1)])

    return [work(context - 1, 1) for context in decodes], [work(*chunk) for chunk in chunks]


# Groups of decodes that the engine pads by themselves; whole last pages, and last pages of one token.
MIXED = ([20, 400, 1, 352, 33], [(0, 1), (21, 30), (48, 16), (15, 40)])


@pytest.mark.parametrize("heads", [(2, 2), (8, 2), (7, 1)])
@pytest.mark.parametrize(("decodes", "chunks"), [MIXED, (MIXED[0], []), ([], MIXED[1]), ([16], [(0, 17)])])
def test_attention_is_the_reference_s(backend, heads, decodes, chunks):
    config = replace(LLAMA, heads=heads[0], kv_heads=heads[1], head_dim=64)
    decode_works, chunk_works = batch(decodes, chunks)
    works = [*decode_works, *chunk_works]
    step = build_step(decode_works, chunk_works, vocab_size=8, pages=PAGES, device=CPU)
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    keys, values = (normal(PAGES * 16, config.kv_size) for _ in range(2))
    unread = torch.ones(PAGES * 16, dtype=torch.bool)
    for work in works:
        at = torch.arange(work.start + len(work.token_ids))
        unread[torch.tensor(work.pages)[at // 16] * 16 + at % 16] = False
    for pool in (keys, values):
        pool[unread] = math.nan
    # Rows lie apart, as they do in the product that makes queries, keys and values together.
    queries = normal(len(step.positions), sum(heads) + heads[1], 64)[:, : heads[0]]
    found, expected = (queries.new_full(queries.shape, math.nan) for _ in range(2))
    for module, out in ((attention.BACKENDS[backend](), found), (torch_ops, expected)):
        module.attend(queries, keys, values, module.plan(step, config, FREQUENCIES, torch.float64), out)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.fixture
def exact(backend, monkeypatch):
    """The backend in float64 on a CPU: all but attention by torch's operations instead of Triton's kernels."""
    from chunkfit.engine.attention import triton_paged

    module = attention.BACKENDS[backend]()
    for name in ("add_norm", "silu_mul"):
        monkeypatch.setattr(module, name, getattr(torch_ops, name))
    for name in ("plan", "rotate_and_write", "problem"):
        monkeypatch.setattr(triton_paged, name, getattr(torch_ops, name))
    monkeypatch.setattr(module, "DTYPES", (torch.float64,))
    return backend


@pytest.mark.parametrize("capturing", [False, True])
def test_logits_are_the_reference_s(exact, capturing, monkeypatch):
    """Captured: the pieces between two calls of attention, padded, and attention on what the batch is."""
    if capturing:
        monkeypatch.setitem(CAPTURES, "cpu", FakeCapture)
        monkeypatch.setattr(captured, "CAPTURE_SIZES", (4, 128))
    shape = replace(PRESETS["tiny"], head_dim=64, layers=2)
    engines = [
        Engine(shape, device="cpu", dtype=torch.float64, kv_tokens=PAGES * 16, attention=name, graphs=graphs)
        for name, graphs in ((exact, True), ("torch", False))
    ]
    assert bool(engines[0].capture_sizes) == capturing
    for decodes, chunks in (MIXED, ([20, 400, 1], []), ([], [(21, 30)])):
        found, expected = (engine.logits(*batch(decodes, chunks)) for engine in engines)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


def test_a_pass_stays_on_the_gpu_and_waits_for_nothing(backend, monkeypatch):
    """Kernels are not run; the libraries' calls say what they were given where."""
    from chunkfit.engine.attention import triton_paged
    from chunkfit.engine.kernels.variant import Variant

    given = []

    def attend(self, q, pools, out):
        given.append((q.device, out.device))

    def flash(q, k_cache, v_cache, *, cache_seqlens, page_table, cu_seqlens_q, max_seqlen_q, causal):
        given.append((q.device, cache_seqlens.device, page_table.device, cu_seqlens_q.device))
        return torch.empty_like(q)

    monkeypatch.setattr(Variant, "launch", lambda *_: None)
    monkeypatch.setattr(triton_paged, "_processors_and_capability", lambda _: (132, 9))
    monkeypatch.setattr(fake_attention._Wrapper, "run", attend)
    if backend == "flash_attn":
        fake_attention.install(monkeypatch, MODULES[backend], flash_attn_with_kvcache=flash)
    config, works = replace(LLAMA, layers=2), batch(*MIXED)
    with fake_cuda(), torch.inference_mode():
        weights = random_weights(config, CUDA, torch.bfloat16, torch.Generator())
        cache = allocate_kv_cache(config, PAGES, CUDA, torch.bfloat16, None)
        step = build_step(*works, vocab_size=8, pages=PAGES, device=CUDA)
        logits = Decoder(config, weights, cache, attention.BACKENDS[backend]()).forward(step)
        assert (logits.shape, logits.device) == ((9, config.vocab_size), CUDA)
    assert len(given) == 2 * config.layers  # decodes and chunks
    assert {device for devices in given for device in devices} == {CUDA}


def test_a_plan_keeps_its_wrappers_until_it_is_gone(monkeypatch):
    """The microbenchmarks plan many batches before they time them; an engine's iterations make no new wrapper."""
    module = fake_attention.install(monkeypatch, "flashinfer")
    decode = module.BatchDecodeWithPagedKVCacheWrapper
    monkeypatch.setattr(decode, "made", 0)
    backend = attention.BACKENDS["flashinfer"]()
    config = replace(LLAMA, heads=4, kv_heads=2, head_dim=64)

    def planned(contexts):
        step = build_step(*batch(contexts, []), vocab_size=8, pages=PAGES, device=CPU)
        return backend.plan(step, config, FREQUENCIES, torch.float64)

    first, second = planned([5, 6]), planned([7])
    kept, other = first.runs[0][1], second.runs[0][1]
    assert (len(kept.last), len(other.last)) == (2, 1)
    del first
    gc.collect()
    assert planned([8]).runs[0][1] is kept
    assert decode.made == 2


def test_no_library_is_taken_unasked(backend):
    assert attention.choose(None, LLAMA, torch.device("cuda"), torch.bfloat16) == "triton"
    assert attention.choose(None, LLAMA, CPU, torch.float32) == "torch"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "flashinfer",
            r"attention 'flashinfer': flashinfer is not installed; expected flashinfer-python 0.7 or later: ",
        ),
        ("flash_attn", r"flash_attn_interface is not installed.*flash-attn 2 will not do.*256 tokens, the engine's 16"),
    ],
)
def test_an_absent_library(name, message):
    if library.find_spec(MODULES[name]) is not None:
        pytest.skip(f"{MODULES[name]} is installed")
    with pytest.raises(DeviceUnavailableError, match=message + r".*or use attention 'torch'"):
        attention.choose(name, LLAMA, torch.device("cuda"), torch.bfloat16)


def test_a_library_that_is_too_old(monkeypatch):
    fake_attention.install(monkeypatch, "flashinfer", version="0.6.14")
    with pytest.raises(
        DeviceUnavailableError, match=r"flashinfer-python 0.6.14 is installed; expected .* 0.7 or later"
    ):
        attention.choose("flashinfer", LLAMA, torch.device("cuda"), torch.bfloat16)


def test_a_library_built_for_another_torch(backend, monkeypatch):
    def fails(_):
        raise ImportError("undefined symbol: _ZN3c104cuda\nmore of it")

    monkeypatch.setattr(library, "import_module", fails)
    with pytest.raises(DeviceUnavailableError, match=r"does not import \(undefined symbol: _ZN3c104cuda\); expected"):
        attention.choose(backend, LLAMA, torch.device("cuda"), torch.bfloat16)


@pytest.mark.parametrize(
    ("changes", "device", "dtype", "message"),
    [
        ({}, torch.device("cuda"), torch.float32, "dtype is torch.float32; expected one of torch.float16"),
        ({}, CPU, torch.bfloat16, "kernels do not run on cpu; expected device cuda"),
        ({"head_dim": 80}, torch.device("cuda"), torch.bfloat16, "model llama-3-8b: head_dim is 80; expected one of"),
    ],
)
def test_what_a_library_cannot_run(backend, changes, device, dtype, message):
    with pytest.raises(UsageError, match=f"attention '{backend}': .*{message}.*or use attention 'torch'"):
        attention.choose(backend, replace(LLAMA, **changes), device, dtype)


def test_flash_attention_3_is_for_hopper(monkeypatch):
    fake_attention.install(monkeypatch, "flash_attn_interface")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (10, 0))
    with pytest.raises(UsageError, match=r"compute capability 9.0 \(Hopper\), and this GPU has 10.0"):
        attention.choose("flash_attn", LLAMA, torch.device("cuda"), torch.bfloat16)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    assert attention.choose("flash_attn", LLAMA, torch.device("cuda"), torch.bfloat16) == "flash_attn"


def test_the_fingerprint_names_the_library_s_version(backend):
    version = fake_attention.VERSIONS[MODULES[backend]]
    found = fingerprint(PRESETS["tiny"], "cpu", torch.float32, backend, ())
    assert found.attention_backend == f"{backend} {version}"
