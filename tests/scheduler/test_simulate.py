"""The simulator: times by hand, preemption, refusals, what it refuses to do, the same bytes without a compiler."""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from support.random_tables import random_table, table_of
from support.served_table import DOMAIN, served_table
from support.serving import STEEP, random_limits, random_workload, workload

from chunkfit.files.errors import OutOfDomainError, UsageError
from chunkfit.scheduler.compiled import COMPILES
from chunkfit.scheduler.cost import SLOWEAVE, Formula, from_table, noise_factors
from chunkfit.scheduler.dtypes import Refusal, Status
from chunkfit.scheduler.loop import run_iterations
from chunkfit.scheduler.policies import policy
from chunkfit.scheduler.serving_metrics import measure
from chunkfit.scheduler.serving_state import Limits
from chunkfit.scheduler.simulate import Conditions, simulate
from chunkfit.tables import Fingerprint, Scene
from chunkfit.tables.support import Support

# A decode costs 1 ms, a prompt token 1/16 ms, an iteration 2 ms: every time is a whole number of ticks.
PLAIN = Formula(overhead=2.0, decode=1.0, chunk_token=0.0625).cost()
WIDE = Limits(64, 10_000)


def run_of(requests, name="fixed-64", limits=WIDE, **options):
    return simulate(requests, policy(name), PLAIN, PLAIN, limits, Conditions(**options), log=True)


def test_times_by_hand():
    requests = workload(2, arrival_ms=[1.0, 4.0], prompt_tokens=[96, 32], output_tokens=[3, 1])
    run = run_of(requests)
    # 1-7: 64 tokens; 7-11: 32 more, first token at 11; 11-16: a decode and 32 tokens of the second; 16-19: a decode.
    assert run.log["start_ms"].tolist() == [1, 7, 11, 16]
    assert run.log["latency_ms"].tolist() == [6, 4, 5, 3]
    assert run.log["chunk_tokens"].tolist() == [64, 32, 32, 0]
    assert run.log["prefix_tokens"].tolist() == [0, 64, 0, 0]
    assert run.log["decodes"].tolist() == [0, 0, 1, 1]
    assert run.log["context_tokens"].tolist() == [0, 0, 97, 98]
    assert run.log["slack_ms"].tolist()[2:] == [25, 25]
    results = run.results
    assert results["first_token_ms"].tolist() == [11, 16]
    assert results["finish_ms"].tolist() == [19, 16]
    assert results["mean_gap_ms"][0] == 4
    assert results["p99_gap_ms"][0] == results["largest_gap_ms"][0] == 5
    assert np.isnan(results["mean_gap_ms"][1])
    assert run.makespan_ms == 19


def test_a_cached_prefix_is_not_computed():
    run = run_of(workload(1, prompt_tokens=100, cached_tokens=90, output_tokens=1))
    assert run.log["chunk_tokens"].tolist() == [10]
    assert run.log["prefix_tokens"].tolist() == [90]


def test_misses_against_the_schedule():
    # Tokens at 8, 11, 14 ms; due at 8, 9, 10.
    run = run_of(workload(1, prompt_tokens=96, output_tokens=3, ttft_ms=10.0, tpot_ms=1.0))
    assert run.results["first_token_ms"][0] == 10
    assert run.results["schedule_misses"][0] == 2


def test_scheduling_time_and_noise_are_part_of_every_iteration():
    requests = workload(3, prompt_tokens=64, output_tokens=5)
    plain, slow = run_of(requests), run_of(requests, scheduling_ms=0.5)
    assert (slow.log["latency_ms"] == plain.log["latency_ms"] + 0.5).all()
    noisy = run_of(requests, factors=noise_factors(0, 0.1))
    assert noisy.results.tobytes() == run_of(requests, factors=noise_factors(0, 0.1)).results.tobytes()
    ratio = noisy.log["latency_ms"] / plain.log["latency_ms"]
    assert 0.05 < np.std(np.log(ratio)) < 0.2


def test_the_latest_request_is_preempted_and_computed_again():
    # Two pages of prompt each in five pages: the first to need a third page and another takes the last.
    requests = workload(2, prompt_tokens=31, output_tokens=20)
    run = run_of(requests, "fixed-4096", Limits(8, pages=5))
    assert run.results["preemptions"].tolist() == [0, 1]
    assert (run.results["status"] == Status.FINISHED).all()
    assert run.results["tokens"].tolist() == [20, 20]
    assert run.results["finish_ms"][0] < run.results["finish_ms"][1]
    # It waits for the pages of the first; its gap holds the wait, and its prompt is computed with its tokens.
    assert run.results["largest_gap_ms"][1] > 10 * run.results["mean_gap_ms"][0]
    assert run.log["chunk_tokens"].sum() > 62
    assert run.log["pages_used"].max() <= 5


def test_longer_than_the_engine_holds_is_refused():
    requests = workload(3, prompt_tokens=[40, 100, 30], output_tokens=10)
    for limits in (Limits(8, pages=4), Limits(8, 1000, max_request_tokens=64)):
        status = run_of(requests, limits=limits).results["status"]
        assert status.tolist() == [Status.FINISHED, Status.REFUSED, Status.FINISHED]


def test_a_horizon_leaves_requests_unfinished():
    requests = workload(3, arrival_ms=[0.0, 0.0, 99.0], prompt_tokens=64, output_tokens=1000)
    run = run_of(requests, until_ms=60.0)
    assert (run.results["status"] == Status.UNFINISHED).all()
    assert run.log["start_ms"].max() < 60 <= run.makespan_ms
    assert run.results["tokens"][2] == 0 < run.results["tokens"][0]
    assert run.results["mean_gap_ms"][0] > 0
    assert np.isnan(run.results["finish_ms"]).all()
    idle = run_of(workload(2, arrival_ms=[0.0, 500.0]), until_ms=100.0)
    assert idle.results["status"].tolist() == [Status.FINISHED, Status.UNFINISHED]
    assert idle.makespan_ms == idle.results["finish_ms"][0]


def test_percentiles_of_gaps_are_exact():
    """Against all gaps of each request, from the log: with room for everyone all decodes run in every iteration."""
    rng = np.random.default_rng(0)
    requests = workload(
        12,
        arrival_ms=np.sort(rng.uniform(0, 4000, 12)),
        prompt_tokens=rng.integers(1, 900, 12),
        output_tokens=[1, 2, 3, 99, 100, 101, 102, 201, 202, 350, 1000, 1001],
    )
    run = run_of(requests, factors=noise_factors(1, 0.5))
    ends = run.log["start_ms"] + run.log["latency_ms"]
    for result in run.results:
        inside = (ends > result["first_token_ms"]) & (ends <= result["finish_ms"])
        gaps = np.diff(np.concatenate([[result["first_token_ms"]], ends[inside]]))
        assert len(gaps) == result["tokens"] - 1
        if len(gaps):
            assert result["p99_gap_ms"] == np.quantile(gaps, 0.99, method="inverted_cdf")
            assert result["largest_gap_ms"] == gaps.max()
            assert result["mean_gap_ms"] == pytest.approx(gaps.mean())


def test_outside_of_a_cost_is_an_error_that_says_which():
    table = from_table(random_table(3))
    requests = workload(1, prompt_tokens=500)
    with pytest.raises(OutOfDomainError, match=r"iteration 0 at 0.000 ms: n 0.*the true cost.*Limits.within"):
        simulate(requests, policy("full"), PLAIN, table, WIDE)
    with pytest.raises(OutOfDomainError, match="the policy's cost"):
        simulate(workload(2, prompt_tokens=[1, 100]), policy("sloweave"), table, PLAIN, WIDE)


def test_a_queue_that_can_never_move_is_an_error():
    with pytest.raises(UsageError, match=r"none of 1 queued .*max_prefix_tokens"):
        run_of(workload(1, cached_tokens=50), limits=Limits(8, 1000, max_prefix_tokens=10))


def test_limits_within_a_table_never_leave_it():
    for seed in range(30):
        table = from_table(random_table(seed))
        if table.head[0].kv_tokens < 40:
            continue
        limits = Limits.within(table, 8)
        rng = np.random.default_rng(seed)
        requests = random_workload(rng, 12)
        simulate(requests, policy("sloweave"), table, table, limits)


def test_workloads_that_cannot_be_are_refused():
    with pytest.raises(UsageError, match=r"simulate: row 1 .*arrival_ms: 1\.0"):
        run_of(workload(2, arrival_ms=[3.0, 1.0]))


def test_a_read_only_workload_is_run_by_the_same_code():
    requests = workload(2)
    plain = run_of(requests).results
    requests.flags.writeable = False
    assert run_of(requests).results.tobytes() == plain.tobytes()
    if COMPILES:
        assert len(run_iterations.signatures) == 1


def digest_of_runs():
    """Every policy on a few random workloads, with noise; for the comparison of compiled and plain runs."""
    digest = hashlib.sha256()
    names = ("full", "fixed-64", "token-budget-64", "sarathi-edf-64", "sloweave", "slidingserve-256", "qoserve")
    for name in names:
        for seed in range(3):
            rng = np.random.default_rng(seed)
            requests = random_workload(rng, 15)
            limits = random_limits(rng, requests)
            for cost in (STEEP.cost(), SLOWEAVE.cost()):
                factors = noise_factors(seed, 0.05)
                run = simulate(requests, policy(name), cost, cost, limits, Conditions(factors), log=True)
                digest.update(run.results.tobytes() + run.log.tobytes())
    return digest.hexdigest()


@pytest.mark.skipif(not COMPILES, reason="nothing is compiled here")
@pytest.mark.parametrize("how", ["NUMBA_DISABLE_JIT=1", "no numba"])
def test_without_a_compiler_the_bytes_are_the_same(how, request):
    code = "import sys\n"
    if how == "no numba":
        code += "sys.modules['numba'] = None\n"
    code += (
        f"sys.path[:0] = [{str(request.path.parent)!r}, {str(request.config.rootpath)!r}]\n"
        "from chunkfit.scheduler.compiled import COMPILES, slower_note\n"
        "assert not COMPILES and 'plain Python' in slower_note()\n"
        "import test_simulate\n"
        "print(test_simulate.digest_of_runs())"
    )
    env = os.environ | ({"NUMBA_DISABLE_JIT": "1"} if how != "no numba" else {})
    plain = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert plain.stdout.strip() == digest_of_runs(), plain.stderr


@pytest.fixture(scope="module")
def without_prefixes():
    """A table of a log whose prompts always fit one chunk."""
    return from_table(served_table(Fingerprint(engine="vllm"), DOMAIN.model_copy(update={"max_prefix_tokens": 0})))


@pytest.mark.parametrize("name", ["sloweave", "full", "fixed-64", "token-budget-256", "slidingserve-256"])
def test_without_measured_prefixes_prompts_are_computed_whole(without_prefixes, name):
    requests = workload(40, arrival_ms=np.arange(40) * 15.0, prompt_tokens=60, output_tokens=8)
    limits = Limits.within(without_prefixes, 16)
    run = simulate(requests, policy(name), without_prefixes, without_prefixes, limits, Conditions(), log=True)
    assert (run.results["status"] == Status.FINISHED).all()
    assert not run.log["prefix_tokens"].any()


def test_a_chunk_that_would_leave_an_unmeasured_prefix_is_not_given(without_prefixes):
    """fixed-64 offers 64 of 100 tokens, of which nothing could be continued: the run says that it is stuck."""
    limits = Limits.within(without_prefixes, 16)
    requests = workload(1, prompt_tokens=100, output_tokens=2)
    with pytest.raises(UsageError, match=r"none of 1 queued requests can get a token.*no prefix was measured"):
        simulate(requests, policy("fixed-64"), without_prefixes, without_prefixes, limits, Conditions())


def test_every_refusal_has_its_reason(without_prefixes):
    limits = replace(Limits.within(without_prefixes, 16), pages=20)
    requests = workload(3, prompt_tokens=[9000, 400, 50], output_tokens=2)
    run = simulate(requests, policy("full"), without_prefixes, without_prefixes, limits, Conditions())
    assert run.results["refusal"].tolist() == [Refusal.TOO_LONG, Refusal.KV_CAPACITY, Refusal.NONE]
    report = measure(requests, run.results, "per_token", run.makespan_ms).groups["all"]
    assert report.refused == 2
    assert report.refused_because.model_dump() == {"too_long": 1, "kv_capacity": 1, "no_output": 0, "policy": 0}
    assert len(report.refused_because.lines()) == 2


def test_iterations_by_order_are_counted():
    """A table that measured decodes and chunks of long contexts alone: short ones are answered by order."""
    whole = served_table(Fingerprint(engine="vllm"))
    d = whole.domain
    edges = {
        "decodes": (d.max_decodes,),
        "context_tokens": (200, d.max_context_tokens),
        "chunk_tokens": (d.max_chunk_tokens,),
        "prefix_tokens": (d.max_prefix_tokens,),
    }
    measured = {
        Scene.DECODE: np.array([[False, True]]),
        Scene.PREFILL: np.ones((1, 1), bool),
        Scene.MIXED: np.array([False, True]).reshape(1, 2, 1, 1),
    }
    table = from_table(table_of(replace(whole.arrays, support=Support(edges, measured))))
    requests = workload(1, prompt_tokens=100, output_tokens=201)
    run = simulate(requests, policy("full"), table, table, Limits.within(table, 8), Conditions(), log=True)
    short = (run.log["decodes"] > 0) & (run.log["context_tokens"] <= 200)
    assert 0 < short.sum() < run.iterations - 50
    assert run.support_counts() == {"by_order": int(short.sum()), "unmeasured": 0}
    plain = from_table(whole)
    again = simulate(requests, policy("full"), plain, plain, Limits.within(plain, 8), Conditions())
    assert again.support_counts() == {"by_order": 0, "unmeasured": 0}
