"""The operators are what the engine computes, and count what they move and do."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from chunkfit.engine import PRESETS, Engine, SequenceWork
from chunkfit.engine.step import build_step
from chunkfit.profiler.microbench import attention, engine_calls, operator_sizes, token_parallel
from chunkfit.profiler.microbench.cold_timing import ColdTimer
from chunkfit.profiler.microbench.operator_buffers import OperatorBuffers
from chunkfit.profiler.microbench.results import key_of

CONFIG = replace(PRESETS["tiny"], layers=3)


@pytest.fixture(scope="module")
def buffers():
    return OperatorBuffers(CONFIG, "cpu", ColdTimer(torch.device("cpu")), 64 << 20, 8192)


@pytest.mark.parametrize("switches", [{}, {"qkv_bias": True}, {"qk_norm": True}], ids=["llama", "qwen2", "qwen3"])
def test_the_operators_in_their_order_are_the_forward_pass(switches):
    """One layer, a mixed batch: nothing of it is forgotten and nothing is another function."""
    config = replace(CONFIG, layers=1, **switches)
    engine = Engine(config, device="cpu", kv_tokens=512, seed=1)
    decodes = [SequenceWork([5], 39, [0, 1, 2]), SequenceWork([6], 20, [3, 4])]
    chunks = [SequenceWork(list(range(30)), 10, [5, 6, 7])]
    expected = engine.logits(decodes, chunks)

    engine = Engine(config, device="cpu", kv_tokens=512, seed=1)
    step = build_step(decodes, chunks, vocab_size=config.vocab_size, pages=engine.allocator.pages, device=engine.device)
    backend, eps = engine_calls.backend_of(engine), config.rms_norm_eps
    weights, layer = engine.weights, engine.weights.layers[0]
    plan = engine_calls.planned(engine, decodes, chunks)
    embedded = F.embedding(step.arrays.token_ids, weights.embedding)
    normed, hidden = backend.add_norm(embedded, None, layer.attention_norm, eps)
    queries = engine_calls.rotate_and_write(
        engine, engine_calls.project(normed, layer.query_key_value, layer.query_key_value_bias), plan
    )
    attended = engine_calls.attention(engine, decodes, chunks, queries)()
    normed, hidden = backend.add_norm(
        hidden, engine_calls.project(attended.flatten(1), layer.attention_out), layer.mlp_norm, eps
    )
    branch = engine_calls.project(backend.silu_mul(engine_calls.project(normed, layer.gate_up)), layer.down)
    last = (rows.index_select(0, step.arrays.sample_rows) for rows in (hidden, branch))
    logits = engine_calls.project(backend.add_norm(*last, weights.final_norm, eps)[0], weights.lm_head)
    torch.testing.assert_close(logits, expected, rtol=1e-5, atol=1e-5)


def test_flops_of_the_products_are_those_of_the_engines_iteration():
    """Of every layer and the lm_head, as torch counts them."""
    batch = (3, 40, 21, 16)
    engine = Engine(CONFIG, device="cpu", kv_tokens=512)
    decodes = [SequenceWork([1], 39, engine.allocator.allocate(3)) for _ in range(3)]
    chunk = SequenceWork(list(range(21)), 16, engine.allocator.allocate(3))
    with FlopCounterMode(display=False) as counted:
        engine.logits(decodes, [chunk])
    products = sum(
        flops for op, flops in counted.get_flop_counts()["Global"].items() if str(op) in ("aten.mm", "aten.addmm")
    )
    listed = {o.key: o for o in token_parallel.product_operators(CONFIG, 4, [24], [4])}
    assert (
        sum(times * listed[key].flops for times, key in operator_sizes.parts_of(CONFIG, batch) if key in listed)
        == products
    )


def test_every_part_of_an_iteration_is_an_operator_that_is_timed(small_sizes):
    listed = {o.key for o in operator_sizes.operators_of(CONFIG, 4, "cpu", small_sizes, 1 << 20)}
    for batch in small_sizes.batches:
        assert {key for _, key in operator_sizes.parts_of(CONFIG, batch)} <= listed
    assert {key: times for times, key in operator_sizes.parts_of(CONFIG, (4, 64, 28, 32))} == {
        key_of("add_norm", {"tokens": 32}): 6,
        key_of("query_key_value", {"tokens": 32}): 3,
        key_of("rope_write", {"tokens": 32}): 3,
        key_of("attention_out", {"tokens": 32}): 3,
        key_of("gate_up", {"tokens": 32}): 3,
        key_of("silu_mul", {"tokens": 32}): 3,
        key_of("down", {"tokens": 32}): 3,
        key_of("add_norm", {"tokens": 5}): 1,
        key_of("lm_head", {"tokens": 5}): 1,
        key_of("decode_attention", {"decodes": 4, "context_tokens": 64}): 3,
        key_of("chunk_attention", {"chunk_tokens": 28, "prefix_tokens": 32}): 3,
    }


def test_bytes_and_flops_by_the_conventions():
    """hidden 128, 4 + 2 + 2 heads of 32, intermediate 384, 4 bytes; written out by hand."""
    down = next(o for o in token_parallel.product_operators(CONFIG, 4, [10], []) if o.name == "down")
    assert (down.bytes_moved, down.flops) == (4 * (128 * 384 + 10 * 384 + 10 * 128), 2 * 10 * 128 * 384)
    decode = attention.decode_operators(CONFIG, 4, [(3, 100)])[0]
    assert (decode.bytes_moved, decode.flops) == (4 * (3 * 100 * 2 * 64 + 3 * 2 * 128), 4 * 3 * 100 * 128)
    chunk = attention.chunk_operators(CONFIG, 4, [(3, 10)])[0]
    assert (chunk.bytes_moved, chunk.flops) == (4 * (13 * 2 * 64 + 3 * 2 * 128), 4 * (11 + 12 + 13) * 128)
    norm, rope, silu = token_parallel.pointwise_operators(CONFIG, 4, [10])
    assert (norm.bytes_moved, norm.flops) == (4 * (4 * 10 + 1) * 128, 5 * 10 * 128)
    assert (rope.bytes_moved, rope.flops) == (4 * 10 * (2 * 256 + 2 * 32) + 80, 3 * 10 * 192)
    normed = token_parallel.pointwise_operators(replace(CONFIG, qk_norm=True), 4, [10])[1]
    assert (normed.bytes_moved, normed.flops) == (rope.bytes_moved + 4 * 2 * 32, 7 * 10 * 192)
    assert (silu.bytes_moved, silu.flops) == (4 * 10 * 3 * 384, 5 * 10 * 384)
    whole = token_parallel.whole_operators(CONFIG, 4, [10])[0]
    gemms = token_parallel.product_operators(CONFIG, 4, [10], [])
    assert whole.flops == sum(o.flops for o in gemms) + 2 * norm.flops + rope.flops + silu.flops


def test_each_call_has_buffers_of_its_own_and_they_are_not_zeros(buffers):
    first, second = buffers.take(100, 128), buffers.take(100, 128)
    assert first.data_ptr() + first.nbytes <= second.data_ptr()
    assert first.abs().min() < first.abs().max()
    assert first.std() == pytest.approx(128**-0.5, rel=0.05)
    pages = [buffers.pages(40) for _ in range(4)]
    assert len({page for taken in pages for page in taken}) == 12


@pytest.mark.parametrize("name", ["lm_head", "down", "add_norm", "rope_write", "silu_mul", "token_parallel"])
def test_operators_run(buffers, name):
    listed = [
        *token_parallel.product_operators(CONFIG, 4, [20], [3]),
        *token_parallel.pointwise_operators(CONFIG, 4, [20]),
        *token_parallel.whole_operators(CONFIG, 4, [20]),
    ]
    operator = next(o for o in listed if o.name == name)
    out = operator.make(buffers)()
    assert all(part.isfinite().all() for part in (out if isinstance(out, tuple) else (out,)))


def test_sizes_are_cut_to_what_the_domain_allows(small_sizes):
    from chunkfit.profiler.domains import default_domain

    cut = operator_sizes.within(small_sizes, default_domain("cpu"))
    assert cut.decodes == ((4, 64),)
    assert cut.batches == small_sizes.batches
    for quick in (True, False):
        whole = operator_sizes.SIZES["cpu", quick]
        assert operator_sizes.within(whole, default_domain("cpu")) == whole
