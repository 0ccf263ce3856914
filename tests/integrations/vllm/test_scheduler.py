"""SLOWeave inside vLLM's own scheduler, without a model: simulated iterations, two of them under way."""

import numpy as np
import pytest
from support.served_table import DOMAIN, served_table

from chunkfit.files.errors import FingerprintMismatchError, TableFormatError, UsageError
from chunkfit.integrations.vllm.counters import Counters

TPOT_MS = 25.0


@pytest.fixture(scope="module")
def model(vllm, tmp_path_factory):
    return vllm.tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def engine_of(vllm, model, tmp_path):
    """engine_of(...): a FakeEngine under SLOWeaveScheduler, or under vLLM's own with kind='default'."""
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler

    from chunkfit.integrations.vllm.facts import fingerprint_of
    from chunkfit.integrations.vllm.scheduler import SLOWeaveScheduler

    def make(kind="sloweave", *, depth=2, domain=DOMAIN, blocks=100_000, options=None, changes=None, factors=None):
        config = vllm.engine_config(model, **(changes or {}))
        table = served_table(fingerprint_of(config), domain)
        table.save(tmp_path / "table.json")
        said = {"table": str(tmp_path / "table.json"), "tpot_ms": TPOT_MS}
        config.additional_config = {"chunkfit": said | (options or {})}
        scheduler = vllm.scheduler_of(AsyncScheduler if kind == "default" else SLOWeaveScheduler, config, blocks)
        truth = served_table(fingerprint_of(config))
        return vllm.FakeEngine(scheduler, truth, depth=depth, factors=factors or (lambda: 1.0))

    return make


def serve(engine, seed, iterations, *, rate_ms=25.0, prompt=(3, 4000), output=(2, 300), **extra):
    """Random arrivals until so many iterations ran, then whoever is left."""
    rng = np.random.default_rng(seed)
    arrival, count = 0.0, 0
    while len(engine.ran) < iterations or engine.scheduler.has_requests():
        while arrival <= engine.now_ms and len(engine.ran) < iterations:
            tokens = int(np.exp(rng.uniform(*np.log(prompt))))
            engine.add(f"r{count}", tokens, int(rng.integers(*output)), **extra)
            arrival, count = arrival + rng.exponential(rate_ms), count + 1
        if not engine.scheduler.has_requests():
            engine.idle_until(arrival)
            continue
        engine.step()
        assert len(engine.ran) < 20 * iterations, "the engine runs and does not get done"
    return count


def assert_decodes_never_drop(engine):
    """Whoever got a token gets one in the next iteration, until it has all of its own."""
    last = {}
    for i, ran in enumerate(engine.ran):
        last |= dict.fromkeys(ran.decoding, i)
    for i, (before, after) in enumerate(zip(engine.ran[:-1], engine.ran[1:], strict=True)):
        assert not {name for name in before.decoding - after.decoding if last[name] > i}


@pytest.mark.parametrize("depth", [1, 2])
def test_two_thousand_iterations_without_a_late_token(engine_of, depth):
    rng = np.random.default_rng(1)
    engine = engine_of(depth=depth, factors=lambda: rng.uniform(0.8, 1.0))
    count = serve(engine, 0, 2000)
    counters = engine.scheduler.counters
    assert len(engine.tokens_ms) == count > 200
    assert engine.gaps_ms().max() <= TPOT_MS
    assert (counters.misses, counters.over_bound, counters.outside) == (0, 0, 0)
    assert sum(len(ran.work.contexts) > 0 < len(ran.work.chunks) for ran in engine.ran) > 200
    assert all(sum(c for c, _ in ran.work.chunks) <= ran.allowed for ran in engine.ran)
    assert_decodes_never_drop(engine)
    assert counters.decisions >= 2000
    print(counters.title())
    assert counters.decision_us_total > 0


def test_long_prompts_beside_sixteen_streams(engine_of):
    """Prompts of 64k tokens: the streams keep their pace; under vLLM's own scheduler they do not."""
    streams, gaps, first = [f"stream{i}" for i in range(16)], {}, {}
    for kind in ("default", "sloweave"):
        engine = engine_of(kind)
        for i, name in enumerate(streams):
            engine.add(name, 500 + i, 700)
        waited = []
        for number in range(2):
            while engine.now_ms < 1000 + 7000 * number:
                engine.step()
            engine.add(f"prompt{number}", 64_000, 4)
            waited.append(engine.now_ms)
        while engine.scheduler.has_requests():
            engine.step()
        gaps[kind] = engine.gaps_ms(*streams)
        first[kind] = [engine.tokens_ms[f"prompt{i}"][0] - begin for i, begin in enumerate(waited)]
        assert all(len(engine.tokens_ms[name]) == 700 for name in streams)
        p99, largest = np.quantile(gaps[kind], 0.99), gaps[kind].max()
        print(f"{kind:9} P99 gap {p99:6.1f} ms, largest {largest:6.1f} ms, TTFT {np.round(first[kind])} ms")
    assert gaps["sloweave"].max() <= TPOT_MS
    assert np.quantile(gaps["default"], 0.99) > 10 * TPOT_MS
    assert max(first["sloweave"]) < 1.5 * max(first["default"])


def test_speculative_tokens_are_counted(engine_of):
    speculation = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}
    engine = engine_of(changes={"speculative_config": speculation})
    serve(engine, 3, 300, rate_ms=60.0)
    assert max(len(ran.work.contexts) for ran in engine.ran) > 3 * max(len(ran.decoding) for ran in engine.ran)
    assert engine.scheduler.counters.misses == 0
    assert all(sum(c for c, _ in ran.work.chunks) <= ran.allowed for ran in engine.ran)


def test_what_the_prefix_cache_holds_is_a_prefix(engine_of):
    engine = engine_of()
    engine.add("first", 40_000, 2, seed=5)
    for i in range(8):
        engine.add(f"stream{i}", 100, 600)
    while len(engine.ran) < 400:
        engine.step()
    engine.add("again", 40_400, 2, seed=5)
    begin = len(engine.ran)
    while engine.scheduler.has_requests():
        engine.step()
    (chunk, prefix), *_ = next(ran.work.chunks for ran in engine.ran[begin:] if ran.work.chunks)
    assert prefix == 40_000
    assert chunk < 401
    assert engine.scheduler.counters.misses == 0


def test_a_target_of_ones_own(engine_of):
    engine = engine_of()
    engine.add("strict", 200, 300, tpot_ms=12)
    for i in range(4):
        engine.add(f"other{i}", 200, 300, priority=1000 - 600 * i, ttft_ms=1, tpot_ms="soon")
    while len(engine.ran) < 20:
        engine.step()
    engine.add("long", 30_000, 3)
    while engine.scheduler.has_requests():
        engine.step()
    assert engine.gaps_ms("strict").max() <= 12.0
    assert engine.scheduler.counters.late_first_tokens == 4


def test_outside_the_table_decodes_go_on_and_prompts_hardly(engine_of):
    engine = engine_of(domain=DOMAIN.model_copy(update={"max_decodes": 4}))
    for i in range(6):
        engine.add(f"stream{i}", 100, 200)
    while len(engine.ran) < 20:
        engine.step()
    engine.add("long", 1500, 3)
    while engine.scheduler.has_requests():
        engine.step()
    counters = engine.scheduler.counters
    beside = [ran.work for ran in engine.ran if len(ran.work.contexts) > 4 and ran.work.chunks]
    assert counters.outside > 150
    assert beside
    assert all(sum(c for c, _ in work.chunks) <= 16 for work in beside)
    assert_decodes_never_drop(engine)
    assert len(engine.tokens_ms["long"]) == 3


def test_a_prompt_longer_than_the_table_ends(engine_of):
    engine = engine_of(domain=DOMAIN.model_copy(update={"max_prefix_tokens": 1000}))
    engine.add("long", 6000, 3)
    while engine.scheduler.has_requests():
        engine.step()
    assert len(engine.tokens_ms["long"]) == 3
    assert max(c for ran in engine.ran for c, u in ran.work.chunks if u > 1000) == 16


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("depth", [1, 2])
def test_a_pool_that_is_too_small_preempts_and_gets_done(engine_of, policy, depth):
    engine = engine_of(blocks=600, depth=depth, changes={"scheduling_policy": policy})
    count = serve(engine, 4, 300, rate_ms=30.0, prompt=(100, 3000), output=(100, 400))
    assert all(engine.tokens_ms[f"r{i}"] for i in range(count))
    assert not engine.scheduler.running
    assert not engine.scheduler.waiting
    assert engine.scheduler.kv_cache_manager.block_pool.get_num_free_blocks() == 599


def test_aborted_requests_leave_nothing(engine_of):
    from vllm.v1.request import RequestStatus

    engine = engine_of()
    for i in range(30):
        engine.add(f"r{i}", 3000, 100)
    for _ in range(25):
        engine.step()
    engine.scheduler.finish_requests([f"r{i}" for i in range(0, 30, 2)], RequestStatus.FINISHED_ABORTED)
    while engine.scheduler.has_requests():
        engine.step()
    assert all(len(engine.tokens_ms[f"r{i}"]) == 100 for i in range(1, 30, 2))
    assert engine.scheduler.counters.misses == 0


@pytest.mark.parametrize("name", ["fixed-128", "sarathi_edf-256", "slidingserve-512", "qoserve-512"])
def test_other_policies_run_to_the_end(engine_of, name):
    engine = engine_of(options={"policy": name, "ttft_ms": 1000})
    count = serve(engine, 5, 200)
    assert all(engine.tokens_ms[f"r{i}"] for i in range(count))
    assert all(sum(c for c, _ in ran.work.chunks) <= ran.allowed for ran in engine.ran)


def test_its_numbers_go_with_vllms_statistics(engine_of):
    engine = engine_of()
    serve(engine, 6, 30)
    stats = engine.scheduler.make_stats()
    assert Counters.received(stats.waiting_lora_adapters) == engine.scheduler.counters


def test_without_its_table_it_does_not_start(engine_of, tmp_path):
    with pytest.raises(UsageError, match="no table or no target"):
        engine_of(options={"table": None})
    with pytest.raises(TableFormatError, match=r"absent.json: cannot be read"):
        engine_of(options={"table": str(tmp_path / "absent.json")})
    (tmp_path / "cut.json").write_text('{"format": "chunkfit.cost-table", ')
    with pytest.raises(TableFormatError, match=r"cut.json"):
        engine_of(options={"table": str(tmp_path / "cut.json")})
    engine_of()
    (tmp_path / "table.json").rename(tmp_path / "other.json")
    with pytest.raises(FingerprintMismatchError, match=r"other.json and this engine: .*dtype: 'float32' against"):
        engine_of(options={"table": str(tmp_path / "other.json")}, changes={"dtype": "bfloat16"})
