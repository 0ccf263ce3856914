"""QoServe's published decisions, written out by hand."""

import pytest
from support.serving import TICK, chunks_of, state_of, workload

from chunkfit.scheduler.cost import Formula
from chunkfit.scheduler.policies import policy
from chunkfit.scheduler.policies.qoserve import grid_entry
from chunkfit.scheduler.policies.registry import decide, observe
from chunkfit.scheduler.serving_state import QUEUE, Limits
from chunkfit.scheduler.simulate import simulate

QOSERVE = policy("qoserve")
# 1 ms and 1/64 ms a token: 1.2 x the time of 512 tokens is 10.8 ms.
COST = Formula(overhead=1.0, batch_token=1 / 64).cost()
LONG = {"target": 100_000, "ttft_ms": 1e8}


def decode(slack_ms, **given):
    """A decode whose next token is due so long after time 0."""
    return {"ttft_ms": slack_ms - 10.0, "tpot_ms": 10.0} | given


def order(state):
    slots = state.slots[QUEUE, : state.scalars[0]["queued"]].tolist()
    return [int(state.requests[slot]["row"]) for slot in slots]


def test_the_grid():
    entries = [grid_entry(i) for i in range(10)]
    assert entries == [128, 256, 512, 768, 1024, 1280, 1536, 1792, 2048, 2552]


@pytest.mark.parametrize(
    ("slack_ms", "total"),
    [
        (10.81, 512),
        (10.7, 256),
        (3.61, 128),  # 1.2 x 3 ms
        (0.5, 128),  # none fits: the smallest
        (-5.0, 128),
        (1000.0, 2552),
    ],
)
def test_the_largest_total_of_the_grid_within_the_slack(slack_ms, total):
    state = state_of(QOSERVE, [decode(slack_ms)] * 3, [LONG])
    decide(state, COST)
    assert chunks_of(state) == {3: total - 3}


def test_a_grid_cut_for_a_slower_gpu():
    state = state_of(policy("qoserve-1024"), [decode(1000.0)], [LONG])
    decide(state, COST)
    assert chunks_of(state) == {1: 1023}


def test_its_code_has_one_target_more():
    for variant, total in (("paper", 256), ("code", 768)):
        state = state_of(policy("qoserve", variant=variant), [decode(6.5)], [LONG])
        decide(state, COST)
        assert chunks_of(state) == {1: total - 1}


def test_the_batch_class_does_not_hold_the_others_up():
    batch = decode(1.0, batch_class=1, ttlt_ms=1e5)
    state = state_of(QOSERVE, [decode(10.81), batch], [LONG])
    decide(state, COST)
    assert chunks_of(state) == {2: 510}


def test_a_late_first_token_moves_the_schedule():
    """Each token is due from the real first one on, so the slack of the next iteration is a whole target again."""
    requests = workload(1, prompt_tokens=2000, ttft_ms=1.0, tpot_ms=7.0, output_tokens=3)
    log = simulate(requests, QOSERVE, COST, COST, Limits(8, 1000), log=True).log
    assert log["slack_ms"][1] == 7.0
    assert log["slack_ms"][2] == pytest.approx(14.0 - (1 + 1 / 64))


def test_several_prefills_share_the_budget():
    queue = [{"target": 100, "ttft_ms": 500.0}, {"target": 200, "ttft_ms": 400.0}, {"target": 900, "ttft_ms": 1e6}]
    state = state_of(QOSERVE, [decode(10.81)] * 2, queue)
    decide(state, COST)
    assert chunks_of(state) == {2: 100, 3: 200, 4: 210}


def test_priority_is_the_deadline_and_eight_ms_for_each_token_that_is_left():
    queue = [
        {"target": 1000, "ttft_ms": 1_000.0},  # 1,000 + 8,000
        {"target": 100, "ttft_ms": 8_000.0},  # 8,000 + 800
        {"target": 1000, "computed": 900, "ttft_ms": 7_000.0},  # 7,000 + 800
        {"target": 100, "ttft_ms": 1e9, "ttlt_ms": 6_000.0, "batch_class": 1, "output_estimate": 50},  # 6,000 + 1,200
        {"target": 100, "ttft_ms": 1e9, "ttlt_ms": 8_100.0, "batch_class": 1},  # 8,100 + 800, output unknown
    ]
    assert order(state_of(QOSERVE, queue=queue)) == [3, 2, 1, 4, 0]
    assert order(state_of(policy("qoserve", alpha_ms=1.0), queue=queue)) == [0, 3, 2, 1, 4]


def test_who_cannot_be_in_time_is_put_last_once_and_only_before_it_begins():
    """At 8,500 tokens a second 850 tokens take 100 ms."""
    queue = [
        {"target": 850, "ttft_ms": 99.0},  # 0: too late
        {"target": 850, "ttft_ms": 101.0},  # 1: in time
        {"target": 850, "computed": 1, "ttft_ms": 50.0},  # 2: too late, but begun
        {"target": 8, "ttft_ms": 1e9, "ttlt_ms": 90.0, "batch_class": 1, "output_estimate": 800},  # 3: too late
        {"target": 850, "ttft_ms": 1e6},  # 4
    ]
    state = state_of(QOSERVE, queue=queue)
    decide(state, COST)
    assert state.requests["relegated"].tolist() == [1, 0, 0, 1, 0]
    assert order(state) == [2, 1, 4, 3, 0]  # the two behind everyone in their own order
    assert state.scalars[0]["relegations"] == 2
    decide(state, COST)
    assert state.scalars[0]["relegations"] == 2


def test_the_throughput_is_a_slow_average():
    state = state_of(QOSERVE)
    assert state.scalars[0]["throughput"] == pytest.approx(8.5 / TICK)
    state.scalars[0]["chunk_tokens"] = 500
    observe(state, 10 * TICK)
    assert state.scalars[0]["throughput"] == pytest.approx((0.995 * 8.5 + 0.005 * 50) / TICK)
    state.scalars[0]["chunk_tokens"] = 0
    observe(state, 10 * TICK)  # iterations without a prefill say nothing of it
    assert state.scalars[0]["throughput"] == pytest.approx((0.995 * 8.5 + 0.005 * 50) / TICK)


def test_a_request_in_the_middle_of_its_prefill_moves_up():
    """Its remaining work falls, so a later request of the same deadline does not overtake it."""
    requests = workload(2, prompt_tokens=[1500, 1400], arrival_ms=[0.0, 1.0], ttft_ms=1e5, output_tokens=1)
    run = simulate(requests, policy("qoserve-512"), COST, COST, Limits(8, 1000), log=True)
    assert run.results["first_token_ms"][0] < run.results["first_token_ms"][1]
    assert run.log["prefix_tokens"].tolist()[:3] == [0, 512, 1024]
