"""The serving loop on a clock that only iterations move: against the simulator, pages, cancellation, refusal."""

import numpy as np
import pytest
import torch
from support.live_runs import synthetic_table, virtual
from support.serving import check_run, random_limits, random_workload, workload

from chunkfit.files.errors import UsageError
from chunkfit.scheduler.dtypes import Status
from chunkfit.scheduler.live.executor import VirtualExecutor
from chunkfit.scheduler.live.serve import LiveCosts, Outside, serve
from chunkfit.scheduler.policies import policy
from chunkfit.scheduler.serving_state import Limits
from chunkfit.scheduler.simulate import simulate

POLICIES = ("full", "fixed-256", "token-budget-512", "sarathi-edf-256", "sloweave", "slidingserve-512", "qoserve-2552")


@pytest.fixture(scope="module")
def costs():
    return LiveCosts.of(synthetic_table())


def limits_of(costs, running=64):
    return Limits.within(costs.bound, running)


class ByTable:
    """A device whose iterations take what the table expects, to the tick."""

    def __init__(self, table):
        self.table = table
        self.fingerprint = table.fingerprint

    def prepare(self, batch):
        self.latency_ms = self.table.expected_ms(batch)

    def run(self):
        return self


@pytest.mark.parametrize("name", POLICIES)
def test_with_exact_times_it_is_the_simulator(costs, name):
    """The same functions on the same state: results and iterations agree to the byte."""
    requests = random_workload(np.random.default_rng(3), 60)
    requests["cached_tokens"] = 0
    limits = limits_of(costs, 12)
    live = serve(requests, policy(name), costs, VirtualExecutor(ByTable(synthetic_table()), limits.pages), limits)
    simulated = simulate(requests, policy(name), costs.bound, costs.expected, limits, log=True)
    assert live.run.results.tobytes() == simulated.results.tobytes()
    for column in simulated.log.dtype.names:
        np.testing.assert_array_equal(live.run.log[column], simulated.log[column], err_msg=column)
    assert live.pages_lost == 0


@pytest.mark.parametrize("seed", range(4))
def test_what_holds_in_every_run(costs, seed):
    """Little memory: preemptions, refusals, ends on every path; page numbers follow the state's count throughout."""
    rng = np.random.default_rng(seed)
    requests = random_workload(rng, 40)
    requests["cached_tokens"] = 0
    given = random_limits(rng, requests)
    limits = Limits(given.max_running, max(1, given.pages * given.page_tokens // 16), 16, 512, 600, 2000, 4000)
    live = serve(requests, policy("sloweave"), costs, Watched(limits.pages), limits)
    check_run(requests, limits, live.run)
    assert live.pages_lost == 0
    finished = live.run.results["status"] == Status.FINISHED
    assert {row: len(text) for row, text in live.texts.items()} == {
        row: int(requests["output_tokens"][row]) for row in np.flatnonzero(finished)
    }


class Watched(VirtualExecutor):
    """Looks at each batch as an engine would: pages cover the tokens and nobody shares one."""

    def __init__(self, pages):
        super().__init__(ByTable(synthetic_table()), pages)

    def iterate(self, decodes, chunks):
        held = [page for work in (*decodes, *chunks) for page in work.pages]
        assert len(held) == len(set(held)) <= self.allocator.pages - self.allocator.free_pages
        for work in (*decodes, *chunks):
            assert len(work.pages) * 16 >= work.start + len(work.token_ids)
        assert all(len(work.token_ids) == 1 for work in decodes)
        return super().iterate(decodes, chunks)


def test_pages_run_out_and_the_latest_is_computed_again(costs):
    requests = workload(2, prompt_tokens=31, output_tokens=20)
    executor = Watched(5)
    live = serve(requests, policy("fixed-512"), costs, executor, Limits(8, pages=5))
    assert live.run.results["preemptions"].tolist() == [0, 1]
    assert [len(live.texts[row]) for row in (0, 1)] == [20, 20]
    assert executor.allocator.free_pages == 5


def test_cancelled_in_every_stage(costs):
    """While it waits, in its prefill, while it decodes, once it is done: pages come back, tokens so far are counted."""
    requests = workload(4, arrival_ms=[0, 0, 0, 0], prompt_tokens=[40, 400, 400, 40], output_tokens=[200, 9, 9, 200])
    executor = Watched(400)
    cancels = ((30.0, 0), (30.0, 1), (30.0, 2), (1e6, 3))
    live = serve(requests, policy("fixed-64"), costs, executor, Limits(8, pages=400), outside=Outside(cancels))
    results = live.run.results
    assert results["status"].tolist() == [Status.CANCELLED] * 3 + [Status.FINISHED]
    assert 1 < results["tokens"][0] < 200
    assert results["tokens"].tolist()[1:] == [0, 0, 200]
    assert np.isnan(results["finish_ms"][:3]).all()
    assert executor.allocator.free_pages == 400


def test_no_output_and_too_long_are_refused(costs):
    requests = workload(3, prompt_tokens=[10, 10, 5000], output_tokens=[0, 3, 3])
    live = serve(requests, policy("sloweave"), costs, virtual(), limits_of(costs))
    assert live.run.results["status"].tolist()[:2] == [Status.REFUSED, Status.FINISHED]
    limits = Limits(8, pages=100)
    assert serve(requests, policy("full"), costs, virtual(), limits).run.results["status"][2] == Status.REFUSED


def test_arrivals_out_of_order_are_refused_by_row(costs):
    requests = workload(2, arrival_ms=[5.0, 1.0])
    with pytest.raises(UsageError, match=r"serve: row 1 \(from 0\), arrival_ms: 1.0; expected 0 or more, not before"):
        serve(requests, policy("full"), costs, virtual(), limits_of(costs))


def test_time_up_and_stop_leave_the_rest_unfinished(costs):
    requests = workload(8, arrival_ms=np.arange(8) * 40.0, output_tokens=50)
    up = serve(requests, policy("full"), costs, virtual(), limits_of(costs), outside=Outside(until_ms=200.0))
    assert (up.run.results["status"] == Status.UNFINISHED).sum() >= 3
    assert up.run.log["start_ms"].max() < 200
    assert {flown.row for flown in up.left} == set(range(int((np.arange(8) * 40.0 < up.run.makespan_ms).sum())))
    assert not up.stopped
    asked = iter([False] * 5 + [True])
    cut = serve(requests, policy("full"), costs, virtual(), limits_of(costs), outside=Outside(stop=lambda: next(asked)))
    assert cut.stopped
    assert cut.run.iterations == 5
    assert cut.pages_lost == 0


class Ticking(VirtualExecutor):
    """Each look at the clock takes a while, as on a host, but for the one that ends an iteration, which is exact."""

    real_time = True

    def now_ms(self):
        self._now_ms += 0.5
        return super().now_ms()

    def iterate(self, decodes, chunks):
        tokens = super().iterate(decodes, chunks)
        self._now_ms -= 0.5
        return tokens


def test_the_host_s_time_is_charged_and_the_budget_leaves_room_for_it(costs):
    """0.5 ms lie between decision and engine: with exact costs no target is missed all the same."""
    exact = LiveCosts(costs.expected, costs.expected)
    requests = workload(20, prompt_tokens=900, output_tokens=40, tpot_ms=30.0, ttft_ms=1e5)
    live = serve(requests, policy("sloweave"), exact, Ticking(ByTable(synthetic_table()), 20_000), limits_of(costs))
    log = live.run.log
    busy = (log["decodes"] > 0) & (log["chunk_tokens"] > 0)
    assert (log["latency_ms"] > log["engine_ms"]).all()
    assert busy.sum() > 20
    assert (log["latency_ms"][busy] <= log["slack_ms"][busy]).all()
    assert (log["latency_ms"][busy] > 0.9 * log["slack_ms"][busy]).mean() > 0.5


def test_a_calibrator_moves_the_bound_that_decides(costs):
    """The device takes twice what the table says."""
    from chunkfit.fitters.online.calibrator import OnlineCalibrator

    class Slow(ByTable):
        def prepare(self, batch):
            super().prepare(batch)
            self.latency_ms *= 2

    table = synthetic_table()
    requests = workload(60, arrival_ms=np.arange(60) * 30.0, prompt_tokens=700, output_tokens=40)

    def missed(calibrator):
        executor = VirtualExecutor(Slow(table), 20_000)
        log = serve(requests, policy("sloweave"), costs, executor, limits_of(costs), calibrator=calibrator).run.log
        late = log["engine_ms"] > log["bound_ms"]
        return late[len(late) // 2 :].mean(), (log["bound_ms"] / log["table_bound_ms"])[-1]

    assert missed(None) == (1.0, 1.0)
    share, factor = missed(OnlineCalibrator(table))
    assert share < 0.05
    assert 1.3 < factor < 2.1


def test_stages_of_the_requests_in_flight(costs):
    """After two iterations: one decodes, the next is in its prompt, the third finds both places taken."""
    requests = workload(3, prompt_tokens=[30, 300, 30], output_tokens=20)
    asked = iter([False] * 2 + [True])
    outside = Outside(stop=lambda: next(asked))
    live = serve(requests, policy("fixed-64"), costs, virtual(), Limits(2, pages=100), outside=outside)
    assert [(flown.row, flown.stage.value, flown.tokens, flown.computed) for flown in live.left] == [
        (0, "decoding", 2, 31),
        (1, "prefilling", 0, 64),
        (2, "waiting", 0, 0),
    ]
    assert [flown.pages for flown in live.left] == [2, 19, 0]


def test_prompts_are_the_same_in_every_run():
    from chunkfit.scheduler.live.serve import prompt_tokens

    requests = workload(2, prompt_tokens=[5, 50])
    assert torch.equal(prompt_tokens(requests, 100, 1)(1), prompt_tokens(requests, 100, 1)(1))
    assert not torch.equal(prompt_tokens(requests, 100, 1)(1)[:5], prompt_tokens(requests, 100, 1)(0))
