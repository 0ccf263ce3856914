"""Which backend an engine takes, and what the Triton backend launches, without running a kernel."""

import math
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from chunkfit.engine import PRESETS, Engine, SequenceWork, attention
from chunkfit.engine.kv_cache import allocate_kv_cache
from chunkfit.engine.model import Decoder, random_weights
from chunkfit.engine.step import build_step
from chunkfit.files.errors import DeviceUnavailableError, UsageError

TINY = PRESETS["tiny"]
CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)


def test_cpu_takes_torch_and_says_so():
    assert Engine(TINY, device="cpu", kv_tokens=16).attention == "torch"
    assert Engine(TINY, device="cpu", kv_tokens=16, attention="torch").attention == "torch"


def test_unknown_backends_are_refused_with_the_names():
    with pytest.raises(UsageError, match=r"attention 'flash': no backend.*expected one of torch, triton"):
        Engine(TINY, device="cpu", kv_tokens=16, attention="flash")


def test_without_triton(monkeypatch):
    monkeypatch.setattr(attention, "find_spec", lambda _: None)
    assert attention.choose(None, TINY, CUDA, torch.bfloat16) == "torch"
    with pytest.raises(DeviceUnavailableError, match=r"triton is not installed.*chunkfit\[profile\].*'torch'"):
        attention.choose("triton", TINY, CUDA, torch.bfloat16)


@pytest.fixture
def triton():
    return pytest.importorskip("triton", reason="triton is not installed (it is for Linux)")


def test_triton_that_is_too_old(triton, monkeypatch):
    monkeypatch.setattr(attention, "installed_version", lambda _: "3.5.1")
    with pytest.raises(DeviceUnavailableError, match=r"triton 3.5.1 is installed; expected triton 3.6 or later"):
        attention.choose("triton", TINY, CUDA, torch.bfloat16)
    assert attention.choose(None, TINY, CUDA, torch.bfloat16) == "torch"


def test_triton_of_an_unknown_version(triton, monkeypatch):
    monkeypatch.setattr(attention, "installed_version", lambda _: None)
    with pytest.raises(DeviceUnavailableError, match=r"no version of it is known; expected triton 3.6 or later"):
        attention.choose("triton", TINY, CUDA, torch.bfloat16)


def test_triton_built_for_another_torch(triton, monkeypatch):
    def fails(_):
        raise ImportError("undefined symbol: _ZN3c104cuda\nmore of it")

    monkeypatch.setattr(attention, "import_module", fails)
    with pytest.raises(DeviceUnavailableError, match=r"does not import \(undefined symbol: _ZN3c104cuda\); expected"):
        attention.choose("triton", TINY, CUDA, torch.bfloat16)
    assert attention.usable(TINY, CUDA, torch.bfloat16)["torch"] is None


def test_choosing_torch_imports_no_triton():
    code = (
        "import sys\nfrom chunkfit.engine import PRESETS, Engine\n"
        "Engine(PRESETS['tiny'], device='cpu', kv_tokens=16)\nprint('chunkfit.engine.kernels' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("changes", "device", "dtype", "message"),
    [
        ({}, CPU, torch.float32, "kernels do not run on cpu; expected device cuda; or use attention 'torch'"),
        ({}, CUDA, torch.float64, "dtype is torch.float64; expected one of torch.float16, torch.bfloat16"),
        ({"head_dim": 80}, CUDA, torch.bfloat16, r"model tiny: head_dim is 80; expected one of \[32, 64, 128\]"),
    ],
)
def test_what_triton_cannot_run(changes, device, dtype, message):
    pytest.importorskip("triton", reason="triton is not installed (it is for Linux)")
    config = replace(TINY, **changes)
    with pytest.raises(UsageError, match=message):
        attention.choose("triton", config, device, dtype)
    assert attention.choose(None, config, device, dtype) == "torch"
    assert attention.choose(None, TINY, CUDA, torch.bfloat16) == "triton"


@pytest.fixture
def launches(monkeypatch):
    """What is launched: (module of the kernel, its name, grid, constants). On the meta device tensors have no
    values, and reading one back raises.
    """
    pytest.importorskip("triton", reason="triton is not installed (it is for Linux)")
    from chunkfit.engine.kernels import Variant

    seen = []

    def launch(variant, grid, *arguments):
        names = variant.kernel.arg_names
        assert [*names[len(arguments) :]] == [*variant.constants]  # all arguments, in the kernel's order
        for name, value in zip(names, arguments, strict=False):
            assert isinstance(value, int) or value.device.type == "meta", name
        seen.append((variant.kernel.__module__.rpartition(".")[2], variant.kernel.__name__, grid, variant.constants))

    monkeypatch.setattr(Variant, "launch", launch)
    return seen


def passed(config, decodes, chunks):
    meta = torch.device("meta")
    backend = attention.BACKENDS["triton"].load()
    with torch.inference_mode():
        weights = random_weights(config, meta, torch.bfloat16, torch.Generator())
        cache = allocate_kv_cache(config, 1 << 14, meta, torch.bfloat16, None)
        step = build_step(decodes, chunks, vocab_size=config.vocab_size, pages=1 << 14, device=meta)
        return Decoder(config, weights, cache, backend).forward(step)


def decode(context):
    return SequenceWork([1], context - 1, range(math.ceil(context / 16)))


def chunk(prefix, tokens):
    return SequenceWork([1] * tokens, prefix, range(math.ceil((prefix + tokens) / 16)))


def test_a_mixed_pass_launches_decodes_once_and_chunks_once(launches):
    config = PRESETS["llama-3-8b"]
    logits = passed(config, [decode(20), decode(8000), decode(500)], [chunk(7, 30), chunk(0, 600)])
    assert (logits.shape, logits.dtype, logits.device.type) == ((5, config.vocab_size), torch.bfloat16, "meta")
    layer = [
        ("elementwise", "_norm", (633,)),
        ("rope_kv", "_rope_kv", (633, 8)),
        # 4 programs on each of 4 processors, over 8 heads: the longest is nearly all of it.
        ("decode_attention", "_attend", (3, 8, 2)),
        ("online_softmax", "_reduce", (3, 32)),
        # 600 tokens of 4 query heads in tiles of 128 rows.
        ("chunk_attention", "_attend", (19, 8, 2)),
        ("elementwise", "_norm", (633,)),
        ("elementwise", "_silu_mul", (633, 14)),
    ]
    assert [launch[:3] for launch in launches] == layer * config.layers + [("elementwise", "_norm", (5,))]
    adds = [constants["ADD"] for _, kernel, _, constants in launches if kernel == "_norm"]
    assert adds == [False] + [True] * (2 * config.layers)  # nothing to add before the first layer


def test_a_small_chunk_after_a_long_prefix_is_split_and_a_large_one_is_not(launches, monkeypatch):
    pytest.importorskip("triton", reason="triton is not installed (it is for Linux)")
    from chunkfit.engine.attention import triton_paged

    monkeypatch.setattr(triton_paged, "_processors_and_capability", lambda _: (132, 9))
    config = replace(PRESETS["llama-3-8b"], layers=1)
    passed(config, [decode(20)], [chunk(32_768, 16)])
    attention = [launch[:3] for launch in launches if launch[0] in ("chunk_attention", "online_softmax")]
    assert attention == [("chunk_attention", "_attend", (1, 8 * 16, 1)), ("online_softmax", "_reduce", (16, 32))]
    launches.clear()
    passed(config, [decode(20)], [chunk(32_768, 1024)])
    attention = [launch[:3] for launch in launches if launch[0] in ("chunk_attention", "online_softmax")]
    assert attention == [("chunk_attention", "_attend", (32, 8, 1))]


def test_head_norms_are_no_launches_of_their_own(launches):
    config = PRESETS["qwen3-8b"]
    passed(config, [decode(20)], [])
    assert [constants["NORM"] for module, _, _, constants in launches if module == "rope_kv"] == [True] * config.layers
    assert len([launch for launch in launches if launch[1] == "_norm"]) == 2 * config.layers + 1


@pytest.mark.parametrize(
    ("decodes", "chunks", "modules"),
    [
        ([decode(5)] * 64, [], {"decode_attention"}),
        ([], [chunk(0, 5)], {"chunk_attention"}),
    ],
)
def test_an_empty_part_is_not_launched(launches, decodes, chunks, modules):
    passed(TINY, decodes, chunks)
    assert {launch[0] for launch in launches} & {"decode_attention", "chunk_attention"} == modules
    assert all(min(grid) > 0 for _, _, grid, _ in launches)
