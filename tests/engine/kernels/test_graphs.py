"""Captured passes on the Triton backend against eager ones: graphs on a GPU, fakes of them under the interpreter."""

import math

import pytest
import torch
from support.fake_graphs import FakeCapture
from support.kernel_device import DEVICE, INTERPRETED
from support.sequences import batch

from chunkfit.engine import Engine, ModelConfig
from chunkfit.engine.graphs import runner
from chunkfit.engine.graphs.capture import CAPTURES

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
    qkv_bias=True,
    qk_norm=True,
)
DTYPE = torch.float32 if INTERPRETED else torch.bfloat16
# The keys of a decode are split otherwise than in an eager pass.
TOLERANCE = 1e-5 if INTERPRETED else 0.15
PAGES = 256
SIZES = (2, 8, 12)


@pytest.fixture(scope="module")
def engines():
    """The same weights and KV, captured and not. Of 8 decodes the keys are not split, of fewer they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "CAPTURE_SIZES", SIZES)
        patch.setattr(runner, "DECODE_SIZES", SIZES[:2])
        patch.setitem(CAPTURES, "cpu", FakeCapture)
        return [
            Engine(SHAPE, device=DEVICE, dtype=DTYPE, kv_tokens=16 * PAGES, attention="triton", graphs=graphs)
            for graphs in (True, False)
        ]


@pytest.mark.parametrize(
    ("decodes", "chunks"),
    [
        ([300], []),
        ([0, 700], []),  # no padding
        ([31, 2, 200, 5, 90], []),
        ([3] * 9, []),  # past the sizes of decodes: in pieces
        ([20, 150], [(21, 5)]),
        ([], [(0, 3), (17, 8)]),
    ],
)
def test_logits_and_kv(engines, monkeypatch, decodes, chunks):
    """All that the batch does not own is NaN in the captured one, the page of padding too. Up to 8 decodes alone need
    no pieces.
    """
    asked = batch(decodes, chunks, vocab_size=SHAPE.vocab_size, pages=PAGES, seed=len(decodes))
    owned = sorted(page for works in asked for work in works for page in work.pages)
    with_graphs, eager = engines
    if not chunks and len(decodes) <= 8:
        monkeypatch.setattr(with_graphs._graphs, "_piecewise", {})
    for name in ("keys", "values"):
        mine, theirs = getattr(with_graphs.cache, name), getattr(eager.cache, name)
        mine.fill_(math.nan)
        mine[:, owned] = theirs[:, owned]
    found, expected = (engine.logits(*asked).double() for engine in engines)
    torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCE)
    for name in ("keys", "values"):
        mine, theirs = getattr(with_graphs.cache, name), getattr(eager.cache, name)
        torch.testing.assert_close(mine[:, owned], theirs[:, owned], rtol=0, atol=TOLERANCE)
        others = [page for page in range(PAGES) if page not in owned]
        assert mine[:, others].isnan().all()
