"""Captured passes against eager ones in float64, on torch's backend: pieces with attention between them."""

import math
from dataclasses import replace

import pytest
import torch
from support import sequences
from support.fake_graphs import FakeCapture

from chunkfit.engine import Engine, ModelConfig, SequenceWork
from chunkfit.engine.graphs import CAPTURE_SIZES, DECODE_SIZES, runner
from chunkfit.engine.graphs.capture import CAPTURES
from chunkfit.engine.graphs.piecewise import PiecewiseGraph
from chunkfit.engine.kv_cache import PAGE_SIZE
from chunkfit.engine.model import Decoder
from chunkfit.files.errors import DeviceUnavailableError, UsageError

SHAPE = ModelConfig(
    name="test",
    vocab_size=64,
    hidden_size=16,
    layers=3,
    heads=4,
    kv_heads=2,
    head_dim=8,
    intermediate_size=24,
    rope_theta=10_000.0,
    rms_norm_eps=1e-5,
    context_length=256,
    tie_embeddings=True,
)
KV_TOKENS = 24_000
CLOSE = {"rtol": 0, "atol": 1e-10}


def build(capturing, shape=SHAPE, **options):
    """An engine and what captured for it."""
    found = []

    def capture(device):
        found.append(FakeCapture(device))
        return found[-1]

    with pytest.MonkeyPatch.context() as patch:
        if capturing:
            patch.setitem(CAPTURES, "cpu", capture)
        engine = Engine(shape, device="cpu", dtype=torch.float64, kv_tokens=KV_TOKENS, **options)
    return engine, found


@pytest.fixture(scope="module")
def engines():
    """The same weights and KV, captured and not."""
    return build(True)[0], build(False)[0]


def batch(decodes, chunks, seed=0):
    return sequences.batch(decodes, chunks, vocab_size=SHAPE.vocab_size, pages=KV_TOKENS // PAGE_SIZE, seed=seed)


def some_decodes(count, longest=40):
    return [17 * index % longest for index in range(count)]


def same(engines, asked):
    """Equal logits, and equal KV everywhere but on the page of padding."""
    graphs, eager = engines
    found, expected = (engine.logits(*asked) for engine in engines)
    torch.testing.assert_close(found, expected, **CLOSE)
    for name in ("keys", "values"):
        mine, theirs = (getattr(engine.cache, name)[:, : graphs.allocator.pages] for engine in engines)
        torch.testing.assert_close(mine, theirs, **CLOSE)
    assert graphs.iterate(*asked) == eager.iterate(*asked) == expected.argmax(-1).tolist()


SOME_SIZES = (1, 2, 4, 8, 16, 32, 256, 288, 512)


@pytest.mark.parametrize("total", sorted({size + side for size in SOME_SIZES for side in (-1, 0, 1)} - {0}))
def test_around_a_size(engines, total):
    """Decodes alone, a chunk alone, both, two chunks; n + c one below, at and one past a size."""
    same(engines, batch([], [(total % 37, total)], seed=total))
    same(engines, batch(some_decodes(total), [], seed=total))
    if total > 1:
        decodes = 1 + total // 3
        same(engines, batch(some_decodes(decodes), [(23, total - decodes)], seed=total))
    if total > 4:
        same(engines, batch(some_decodes(2), [(0, 1), (90, total - 3)], seed=total))


@pytest.mark.parametrize("switches", [{"qkv_bias": True}, {"qk_norm": True}], ids=["qwen2.5", "qwen3"])
def test_the_family(switches):
    shape = replace(SHAPE, **switches)
    engines = build(True, shape)[0], build(False, shape)[0]
    same(engines, batch([5, 60, 17], [(20, 30), (0, 9)]))
    same(engines, batch([5, 60, 17], []))


def test_what_a_replay_leaves_is_no_part_of_the_next(engines):
    """Large and small batches in turn: rows of an earlier one lie where the padding of a later one is."""
    for seed, (decodes, chunks) in enumerate(
        [(40, [(7, 400)]), (3, []), (0, [(0, 2)]), (200, []), (1, [(40, 30)]), (0, [(64, 600)]), (9, [])]
    ):
        same(engines, batch(some_decodes(decodes), chunks, seed))


def test_logits_are_kept_and_padding_is_not_seen(engines):
    first = engines[0].logits(*batch([5, 60, 17], []))
    kept = first.clone()
    engines[0].logits(*batch([9, 2, 44], [], seed=1))
    assert torch.equal(first, kept)
    assert first.shape == (3, SHAPE.vocab_size)


def slots_of(work):
    """(slots read, slots written)"""
    at = [work.pages[p // PAGE_SIZE] * PAGE_SIZE + p % PAGE_SIZE for p in range(work.start + len(work.token_ids))]
    return set(at), set(at[work.start :])


@pytest.mark.parametrize(
    ("decodes", "chunks"), [(some_decodes(19), []), (some_decodes(5), [(11, 30), (40, 7)]), ([], [(33, 270)])]
)
def test_padding_touches_its_own_page_alone(decodes, chunks):
    """All that the batch may not read is NaN, padding's page too; nothing but what the batch writes changes."""
    engine = build(True)[0]
    asked = batch(decodes, chunks)
    before = engine.logits(*asked)
    read, written = (set.union(*slots) for slots in zip(*map(slots_of, [*asked[0], *asked[1]]), strict=True))
    pools = [getattr(engine.cache, name).flatten(1, 2) for name in ("keys", "values")]
    for pool in pools:
        outside = torch.ones(pool.shape[1], dtype=torch.bool)
        outside[list(read)] = False
        pool[:, outside] = math.nan
    kept = [pool.clone() for pool in pools]
    assert torch.equal(engine.logits(*asked), before)
    padding = engine.allocator.pages * PAGE_SIZE
    for pool, old in zip(pools, kept, strict=True):
        changed = ((pool != old) & ~(pool.isnan() & old.isnan())).any(-1).any(-1).any(0)
        assert set(changed.nonzero().flatten().tolist()) <= written | {padding}


def test_no_sequence_may_have_the_page_of_padding(engines):
    pages = engines[0].allocator.pages
    assert engines[0].cache.keys.shape[1] == pages + 1
    with pytest.raises(UsageError, match=f"page id {pages}; the KV cache has pages 0 to {pages - 1}"):
        engines[0].iterate([SequenceWork([1], 0, [pages])], [])


@pytest.fixture
def spied(monkeypatch):
    """An engine, and what ran: sizes of pieces, "eager" for a pass that none did."""
    engine, seen = build(True)[0], []
    run, forward = PiecewiseGraph.run, Decoder.forward

    def ran(pieces, step, tokens):
        seen.append(len(pieces.activations.hidden))
        return run(pieces, step, tokens)

    def passed(decoder, step, out=None):
        seen.append("eager")
        return forward(decoder, step, out)

    monkeypatch.setattr(PiecewiseGraph, "run", ran)
    monkeypatch.setattr(Decoder, "forward", passed)
    return engine, seen


@pytest.mark.parametrize(
    ("decodes", "chunks", "expected"),
    [
        (1, [], 1),
        (3, [], 4),
        (257, [], 288),
        (1, [(0, 511)], 512),
        (1, [(0, 512)], "eager"),
        (0, [(5, 12), (0, 5)], 32),
        (513, [], "eager"),
    ],
)
def test_which_size_runs(spied, decodes, chunks, expected):
    engine, seen = spied
    engine.iterate(*batch(some_decodes(decodes), chunks))
    assert seen == [expected]


def test_more_pages_than_there_are_run_eagerly(spied):
    """Decodes that share their pages: block tables have more entries than the pool has pages."""
    engine, seen = spied
    engine.iterate([SequenceWork([1], 11_000, range(700))] * 16, [])
    assert seen == [16]
    engine.iterate([SequenceWork([1], 11_000, range(700))] * 40, [])
    assert seen == [16, "eager"]


def test_largest_first_each_once_in_one_pool():
    engine, (capture,) = build(True)
    assert engine.capture_sizes == CAPTURE_SIZES
    sizes = [size for size in reversed(CAPTURE_SIZES) for _ in range(SHAPE.layers + 1)]
    assert len(capture.functions) == len(sizes)
    for function, size in zip(capture.functions, sizes, strict=True):
        (activations,) = {id(c): c for c in map(content, function.__closure__) if hasattr(c, "attended")}.values()
        assert len(activations.attended) == size


def content(cell):
    return cell.cell_contents


def test_the_same_engine_without_its_graphs(spied):
    engine, seen = spied
    asked = batch(some_decodes(3), [])
    with engine.eager():
        engine.iterate(*asked)
    with pytest.raises(UsageError), engine.eager():
        engine.iterate([], [])
    engine.iterate(*asked)
    assert seen == ["eager", 4]


def test_without_graphs():
    engine, captures = build(True, graphs=False)
    assert (engine.capture_sizes, captures) == ((), [])
    assert build(False)[0].capture_sizes == ()


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 MiB.\nmore"),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be reported later"),
    ],
)
def test_no_room_for_graphs_is_refused_with_the_arithmetic(monkeypatch, error):
    def capture(device):
        fake, calls = FakeCapture(device), []

        def run(function):
            calls.append(function)
            if len(calls) == 7:
                raise error
            return fake(function)

        return run

    monkeypatch.setitem(CAPTURES, "cpu", capture)
    with pytest.raises(DeviceUnavailableError) as caught:
        Engine(SHAPE, device="cpu", kv_tokens=500)
    message = str(caught.value)
    assert f"out of memory while CUDA graphs were captured ({str(error).splitlines()[0]}): free" in message
    assert "weights 0.00 GiB" in message
    assert "512 tokens x 384 bytes and a page of padding" in message
    assert "use fewer kv_tokens, or graphs=False" in message


def test_decode_sizes_end_where_decodes_do(monkeypatch):
    """A backend that captures decodes gets a pass for each of its sizes, between the pieces of that size and the
    next; its logits share one buffer.
    """
    engine, _ = build(False)
    whole = type("Whole", (), {f: staticmethod(getattr(engine._decoder.backend, f)) for f in BACKEND})
    whole.CAPTURES_DECODES = True
    asked = []
    monkeypatch.setattr(runner, "capture_decodes", lambda *args: asked.append(args[2:5]))
    runner.GraphRunner(replace(engine._decoder, backend=whole), 750, 99, FakeCapture("cpu"))
    assert [size for size, *_ in asked] == list(reversed(DECODE_SIZES))
    assert {longest for _, longest, _ in asked} == {99}
    assert {logits.data_ptr() for *_, logits in asked} == {asked[0][2].data_ptr()}
    assert asked[0][2].shape == (256, SHAPE.vocab_size)


BACKEND = ("plan", "add_norm", "rotate_and_write", "attend", "silu_mul")
