"""A whole live session on the synthetic device's clock: what `make live` has to show, asserted."""

from dataclasses import replace

import numpy as np
import pytest
from support.live_runs import synthetic_table, virtual

from chunkfit.files.errors import FingerprintMismatchError, UsageError
from chunkfit.profiler.condition import judge
from chunkfit.scheduler.live import rates
from chunkfit.scheduler.live.live_session import SessionPlan, run_live_session
from chunkfit.scheduler.live.open import limits_of, open_executor
from chunkfit.scheduler.live.runner import LiveRunner
from chunkfit.scheduler.live.session_report import LiveReportV1
from chunkfit.scheduler.live.slo_targets import maker, targets_for
from chunkfit.scheduler.policies import policy
from chunkfit.tables import CostTable
from chunkfit.tables.document import sealed

SPEC = "mixed:prompt_scale=0.5x,output_scale=0.5x"
POLICIES = ("sloweave", "fixed-128", "fixed-512", "slidingserve-512")


def bench_of(executor=None, **given):
    table = synthetic_table()
    return LiveRunner(table, executor or virtual(), limits_of(table, 64, None), "per_token", **given)


def plan_of(runner, **given):
    policies = [policy(name) for name in POLICIES]
    targets = targets_for(runner.table, runner.limits, SPEC, "60x", "2.5x")
    fields = {
        "policies": policies,
        "curve_policies": policies[:3],
        "make": maker(SPEC, targets),
        "targets": targets,
        "rate": None,
        "seconds": 4.0,
        "rounds": 3,
        "curve_seconds": 3.0,
        "check_simulator": True,
    }
    return SessionPlan(**(fields | given))


@pytest.fixture(scope="module")
def whole():
    runner = bench_of()
    return runner, *run_live_session(runner, plan_of(runner))


def test_the_curve_goes_from_idle_to_overload(whole):
    _, found, outcomes = whole
    on_curve = [run for run in found.runs if run.phase == "curve"]
    tried = sorted({run.rate for run in on_curve})
    assert len(tried) >= 5
    assert len(on_curve) == 3 * len(tried)
    assert rates.best_good(outcomes, tried[0]) >= 0.9
    assert rates.best_good(outcomes, tried[-1]) <= 0.5
    for rate in tried:
        assert len({run.report.workload.sha256 for run in on_curve if run.rate == rate}) == 1


def test_rounds_are_interleaved_on_the_same_arrivals_near_capacity(whole):
    _, found, outcomes = whole
    in_rounds = [run.report for run in found.runs if run.phase == "rounds"]
    assert [report.policy for report in in_rounds[:8]] == [*POLICIES, *POLICIES[1:], POLICIES[0]]
    assert [len({report.workload.sha256 for report in in_rounds[4 * turn : 4 * turn + 4]}) for turn in range(3)] == [
        1
    ] * 3
    static = [report.over_all.good_share for report in in_rounds if report.policy == "fixed-128"]
    other = [report.over_all.good_share for report in in_rounds if report.policy == "fixed-512"]
    assert 0.6 < max(np.mean(static), np.mean(other)) < 0.97
    assert all(report.kind == "live" and report.costs.true == "measured" for report in in_rounds)
    assert all(outcome.live.pages_lost == 0 for outcome in outcomes)


def test_every_check_holds_on_a_quiet_device(whole):
    _, found, _ = whole
    assert found.inconclusive is None
    assert found.sentinel.quiet
    assert found.sentinel_level == pytest.approx(1, abs=0.03)
    verdicts = {check.name: check.held for check in found.checks}
    simulated = {name: verdicts.pop(f"simulated against live goodput, {name}") for name in POLICIES}
    assert list(verdicts.values()) == [True, True, True]
    assert simulated["sloweave"] is True
    assert True in (simulated["fixed-128"], simulated["fixed-512"])
    assert simulated["slidingserve-512"] is None  # it keeps a schedule, the criterion is of every token
    assert False not in simulated.values()
    assert found.exit_code == 0
    for name in POLICIES:
        assert found.bound_coverage[name].closed_loop.coverage > 0.98
        assert found.goodput[name].seeds == 3


def test_the_study_comes_back_as_it_was(whole, tmp_path):
    _, found, _ = whole
    found.save(tmp_path / "live.json")
    assert LiveReportV1.model_validate_json((tmp_path / "live.json").read_bytes()) == found


class Loud:
    """A machine on which every iteration takes anything between once and one and a half times its time."""

    def __init__(self):
        self.inner, self.rng = virtual(), np.random.default_rng(0)

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def iterate(self, decodes, chunks):
        begin = self.inner.now_ms()
        tokens = self.inner.iterate(decodes, chunks)
        self.inner.wait(begin + (self.inner.now_ms() - begin) * self.rng.uniform(1, 1.5))
        return tokens


def test_a_machine_that_is_not_quiet_concludes_nothing():
    runner = bench_of(Loud())
    found, _ = run_live_session(runner, plan_of(runner, rate=5.0, rounds=1, seconds=2.0, check_simulator=False))
    assert found.inconclusive is not None
    assert "NOT quiet" in found.inconclusive
    assert found.exit_code == 3


def test_what_is_refused_for_its_length_is_said():
    runner = bench_of()
    runner.limits = replace(runner.limits, max_request_tokens=600)
    found, outcomes = run_live_session(runner, plan_of(runner, rate=8.0, rounds=1, seconds=2.0, check_simulator=False))
    refused = outcomes[0].report.over_all.refused
    assert refused > 0
    assert found.notes[-1] == f"{refused} of 16 requests have more than 600 tokens and are refused"


def test_stopped_it_says_what_there_is_so_far():
    runner = bench_of()
    runner.stop = lambda: runner.runs >= 2
    found, outcomes = run_live_session(runner, plan_of(runner, rate=5.0, rounds=2, seconds=1.0))
    assert (len(outcomes), found.stopped, found.exit_code) == (3, True, 130)
    assert outcomes[-1].live.stopped
    assert [run.stopped for run in found.runs] == [False, False, True]
    assert set(found.goodput) == set(found.simulator) == set(POLICIES[:2])  # one that was cut says nothing of requests
    assert set(found.bound_coverage) == set(POLICIES[:3])  # of its iterations it does


def test_a_table_of_another_engine_serves_nobody():
    table = synthetic_table()
    other = table.document.model_copy(
        update={"fingerprint": table.fingerprint.model_copy(update={"device_name": "another", "dtype": "float16"})}
    )
    with pytest.raises(FingerprintMismatchError, match=r"device_name: 'another' against 'reference-v1'.*dtype"):
        LiveRunner(CostTable(sealed(other)), virtual(), limits_of(table, 8, None), "per_token")
    vllm = table.document.model_copy(update={"fingerprint": table.fingerprint.model_copy(update={"device_kind": None})})
    with pytest.raises(FingerprintMismatchError, match="device kind unknown; expected one of cpu, cuda, synthetic"):
        open_executor(CostTable(sealed(vllm)), 0)


def test_an_engine_with_fewer_pages_than_the_limits_is_refused():
    table = synthetic_table()
    with pytest.raises(UsageError, match=r"the limits name 16,376 KV pages and the engine has 100.*--kv-tokens"):
        LiveRunner(table, virtual(pages=100), limits_of(table, 128, None), "per_token")
    with pytest.raises(UsageError, match="pages is 0; expected at least 1"):
        limits_of(table, 8, 10)


def test_the_sentinel_gives_back_its_pages():
    runner = bench_of()
    free = runner.executor.allocator.free_pages
    for runner.runs in range(3):
        runner.read_sentinel()
    assert runner.executor.allocator.free_pages == free
    assert runner.quiet() == judge(np.array([ms for ms, _ in runner.sentinels]), np.repeat([0, 1, 2], 3))


@pytest.mark.parametrize(
    ("good", "rate"),
    [((1.0, 0.9, 0.4), 2 * 2 ** (0.1 / 0.5)), ((0.7, 0.5, 0.1), 1.0), ((1.0, 1.0, 0.95), 4.0)],
)
def test_where_a_curve_crosses_eighty_percent(monkeypatch, good, rate):
    shares = dict(zip((1.0, 2.0, 4.0), good, strict=True))
    monkeypatch.setattr(rates, "best_good", lambda outcomes, rate, names: shares[rate])
    outcomes = [type("Run", (), {"rate": rate})() for rate in shares]
    assert rates.crossing(outcomes, ["fixed-1"]) == pytest.approx(rate)
