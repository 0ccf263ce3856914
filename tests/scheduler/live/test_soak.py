"""Bursts, cancels, prompts at the limit, no outputs, memory for two: nothing is lost, whatever the policy."""

import numpy as np
import pytest
from support.live_runs import synthetic_table, virtual

from chunkfit.scheduler.live import soak as module
from chunkfit.scheduler.live.open import limits_of
from chunkfit.scheduler.live.runner import LiveRunner
from chunkfit.scheduler.live.soak import soak, wave
from chunkfit.scheduler.policies import policy

POLICIES = ("sloweave", "fixed-64", "full", "token-budget-256", "slidingserve-512", "qoserve-2552")


def bench_of():
    table = synthetic_table()
    return LiveRunner(table, virtual(), limits_of(table, 16, 60_000), "per_token")


def test_a_wave_has_every_kind_of_request():
    limits = bench_of().limits
    longest = limits.max_request_tokens
    waves = [wave(np.random.default_rng(seed), limits) for seed in range(8)]
    requests = np.concatenate([one.requests for one in waves])
    tokens = requests["prompt_tokens"] + requests["output_tokens"]
    assert (tokens == longest).any()
    assert (tokens > longest).any()
    assert (requests["output_tokens"] == 0).any()
    assert all(one.cancels == tuple(sorted(one.cancels)) and one.cancels for one in waves)


def test_nothing_is_lost():
    runner = bench_of()
    told = []
    report = soak(runner, [policy(name) for name in POLICIES], 50.0, told.append)
    assert report.waves >= len(POLICIES)
    assert (report.lost, report.short, report.pages_lost) == (0, 0, 0)
    assert report.finished + report.refused + report.cancelled == report.requests
    assert min(report.refused, report.cancelled, report.preemptions) > 0
    assert told[-1] == report
    assert runner.executor.allocator.free_pages == runner.executor.allocator.pages


def test_what_hangs_is_lost(monkeypatch):
    monkeypatch.setattr(module, "HANGS_AFTER_MS", 300.0)
    report = soak(bench_of(), [policy("full")], 30.0)
    assert report.lost > 0
    assert not report.held
    assert report.waves == 1


def test_memory_that_grows_fails(monkeypatch):
    sizes = iter(range(100, 1000))
    monkeypatch.setattr(module, "resident_bytes", lambda: next(sizes) * 2**20)
    report = soak(bench_of(), [policy("full")], 20.0)
    assert report.growth > 0.02
    assert not report.held


def test_stopped_in_the_middle():
    runner = bench_of()
    asked = iter(range(10**9))
    runner.stop = lambda: next(asked) > 500
    report = soak(runner, [policy("full")], 1e6)
    assert report.stopped
    assert report.lost == 0


@pytest.mark.slow
def test_a_minute_on_the_cpu(tmp_path):
    """The engine itself, in real time, with a table of the tiny model made here."""
    from chunkfit.fitters.fit import fit
    from chunkfit.profiler.domains import default_domain
    from chunkfit.profiler.messages import ProfileRequest
    from chunkfit.profiler.plan import PlanOptions, draw_plan
    from chunkfit.profiler.sweep import profile
    from chunkfit.scheduler.live.open import open_executor

    counts = {"fit_points": 60, "calibrate_points": 60, "test_points": 60}
    plan = draw_plan(default_domain("cpu"), (), 0, PlanOptions(**counts))
    measured = profile(ProfileRequest(device="cpu", model="tiny", plan=plan, out=tmp_path / "p.parquet"), resume=False)
    table = fit(measured, fitter="scene_experts", coverage=0.95)
    runner = LiveRunner(table, open_executor(table, 0), limits_of(table, None, None), "per_token")
    report = soak(runner, [policy(name) for name in POLICIES], 60.0)
    assert report.held, report
