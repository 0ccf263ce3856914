"""Graphs as they are, where there is a GPU: every size against eager passes."""

from dataclasses import replace

import pytest
import torch
from support.sequences import batch

from chunkfit.engine import PRESETS, Engine

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; torch sees none"),
]
SHAPE = replace(PRESETS["tiny"], layers=2)
# Logits near 1 in bfloat16; the keys of a decode are split otherwise than in an eager pass.
TOLERANCE = 0.15


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("switches", [{}, {"qkv_bias": True, "qk_norm": True}], ids=["llama", "qwen"])
@pytest.mark.parametrize("attention", ["torch", "triton"])
def test_every_size(attention, switches):
    """The host waits for nothing in a replay either."""
    graphs, eager = (
        Engine(replace(SHAPE, **switches), device="cuda", kv_tokens=32_768, attention=attention, graphs=graphs)
        for graphs in (True, False)
    )
    for size in graphs.capture_sizes:
        for total in (size, size + 1):
            for decodes, chunks in (([30] * total, []), ([], [(40, total)]), ([700, 0], [(20, total)])):
                asked = batch(decodes, chunks, vocab_size=SHAPE.vocab_size, pages=2048, seed=size)
                found, expected = (engine.logits(*asked).float() for engine in (graphs, eager))
                torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCE)
    mixed = batch([700, 0], [(20, 30)], vocab_size=SHAPE.vocab_size, pages=2048)
    graphs.logits(*mixed)
    torch.cuda.set_sync_debug_mode("error")
    try:
        graphs.logits(*mixed)
        graphs.logits(mixed[0], [])
    finally:
        torch.cuda.set_sync_debug_mode("default")
