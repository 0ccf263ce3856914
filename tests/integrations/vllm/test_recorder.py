"""The recorder inside vLLM's own scheduler: it changes nothing, and times what the iterations take."""

from functools import partial

import numpy as np
import pytest
from support.served_table import served_table

from chunkfit.profiler.importers.ingest import ingest


@pytest.mark.parametrize("depth", [1, 2])
def test_it_writes_what_ran_and_changes_nothing(vllm, tmp_path, depth):
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler

    from chunkfit.integrations.vllm.facts import fingerprint_of
    from chunkfit.integrations.vllm.recorder import RecordingScheduler

    ran, config = {}, vllm.engine_config(vllm.tiny_model(tmp_path / "model"), max_num_batched_tokens=512)
    config.additional_config = {"chunkfit": {"record": str(tmp_path / "log")}}
    for kind in (AsyncScheduler, RecordingScheduler):
        rng = np.random.default_rng(2)
        table = served_table(fingerprint_of(config))
        factors = partial(rng.uniform, 0.8, 1.2)
        engine = vllm.FakeEngine(vllm.scheduler_of(kind, config), table, depth, factors)
        for i in range(40):
            engine.add(f"r{i}", 20 + 37 * i, 5 + i, seed=i)
            for _ in range(4):
                engine.step()
        while engine.scheduler.has_requests():
            engine.step()
        ran[kind] = engine.ran
    assert [r.work for r in ran[AsyncScheduler]] == [r.work for r in ran[RecordingScheduler]]
    engine.scheduler.shutdown()
    (file,) = (tmp_path / "log").iterdir()
    profile = ingest("vllm", file, split="time").profile
    wanted = ran[RecordingScheduler]
    assert profile.points().tolist() == [list(r.work.batch().point()) for r in wanted]
    took = [r.ended_ms - r.began_ms for r in wanted]
    assert profile.columns["latency_ms"] == pytest.approx(took, abs=2e-3)
    assert profile.meta.fingerprint == fingerprint_of(config)
