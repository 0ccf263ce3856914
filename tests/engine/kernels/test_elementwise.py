"""RMSNorm, RoPE with the KV write, and SiLU-mul, each against float64 torch."""

import math

import pytest
import torch
from support.kernel_device import DEVICE, DTYPES, close
from support.pairwise import pairwise

from chunkfit.engine.attention.base import HeadNorms
from chunkfit.engine.kernels.elementwise import rms_norm, silu_mul
from chunkfit.engine.kernels.rope_kv import rope_kv
from chunkfit.engine.kv_cache import LayerCache
from chunkfit.engine.rope import rope_frequencies, rotation


def normal(*shape, dtype, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE, dtype)


@pytest.mark.parametrize("case", pairwise(rows=(1, 5), width=(64, 96, 3584), dtype=DTYPES, scale=(1.0, 1e-3)), ids=str)
@pytest.mark.parametrize("add", [False, True])
def test_rms_norm(case, add):
    hidden = normal(case["rows"], case["width"], dtype=case["dtype"]) * case["scale"]
    branch = normal(case["rows"], case["width"], dtype=case["dtype"], seed=1) * case["scale"] if add else None
    weight = normal(case["width"], dtype=case["dtype"], seed=2)
    summed = hidden + branch if add else hidden.clone()
    found = rms_norm(hidden, branch, weight, 1e-5)
    torch.testing.assert_close(hidden, summed, rtol=0, atol=0)
    exact = summed.double()
    close(found, exact / torch.sqrt((exact * exact).mean(-1, keepdim=True) + 1e-5) * weight.double())


@pytest.mark.parametrize(
    "case",
    pairwise(
        heads=((4, 1), (7, 1), (2, 2), (8, 2)), head_dim=(32, 64, 128), tokens=(1, 5), dtype=DTYPES, norm=(False, True)
    ),
    ids=str,
)
def test_rope_and_kv_write(case):
    (heads, kv_heads), head_dim, tokens = case["heads"], case["head_dim"], case["tokens"]
    projected = normal(tokens, heads + 2 * kv_heads, head_dim, dtype=case["dtype"])
    before = projected.clone()
    positions = torch.tensor([0, 3, 100_000, 17, 1][:tokens], device=DEVICE)
    slots = torch.tensor([9, 2, 5, 0, 7][:tokens], device=DEVICE)
    keys, values = (torch.full((11, kv_heads * head_dim), math.nan, dtype=case["dtype"], device=DEVICE) for _ in "kv")
    frequencies = torch.tensor(rope_frequencies(head_dim, 10_000.0, None), dtype=torch.float32, device=DEVICE)
    cos, signed_sin = rotation(positions, frequencies, torch.float32)
    query_norm, key_norm = (normal(head_dim, dtype=case["dtype"], seed=seed) for seed in (1, 2))
    eps = 0.5  # large, so that it shows
    norms = HeadNorms(query_norm, key_norm, eps) if case["norm"] else None
    rope_kv(projected, norms, cos, signed_sin, slots, LayerCache(keys, values))

    given = before[:, : heads + kv_heads].double()
    if case["norm"]:
        weights = torch.cat((query_norm.expand(heads, -1), key_norm.expand(kv_heads, -1))).double()
        given = given / torch.sqrt((given * given).mean(-1, keepdim=True) + eps) * weights
    # float32 is what angles are computed in; the rotation itself is checked in complex numbers.
    half = head_dim // 2
    turns = torch.complex(cos[..., :half].double(), signed_sin[..., half:].double())
    pairs = torch.complex(given[..., :half], given[..., half:]) * turns
    turned = torch.cat((pairs.real, pairs.imag), dim=-1)
    close(projected[:, :heads], turned[:, :heads])
    close(keys[slots], turned[:, heads:].flatten(1))
    torch.testing.assert_close(values[slots], before[:, heads + kv_heads :].flatten(1), rtol=0, atol=0)
    torch.testing.assert_close(projected[:, heads:], before[:, heads:], rtol=0, atol=0)
    others = [slot for slot in range(11) if slot not in slots.tolist()]
    assert keys[others].isnan().all()
    assert values[others].isnan().all()


@pytest.mark.filterwarnings("ignore:overflow encountered in exp")  # numpy's; the quotient is then 0, as it should be
@pytest.mark.parametrize("case", pairwise(rows=(1, 3), width=(24, 1024, 1100), dtype=DTYPES), ids=str)
def test_silu_mul(case):
    gate_up = 4 * normal(case["rows"], 2 * case["width"], dtype=case["dtype"])
    gate_up[0, 0], gate_up[-1, 1] = 300, -300
    gate, up = gate_up.double().split(case["width"], dim=1)
    close(silu_mul(gate_up), gate * torch.sigmoid(gate) * up)
