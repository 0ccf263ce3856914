"""SLOWeave: its proposition by brute force, its worked examples, and a decision changed by each extension."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.random_tables import random_table
from support.serving import STEEP, chunks_of, random_limits, random_workload, state_of, workload

from chunkfit.scheduler.cost import CURVED, OUTSIDE, SLOWEAVE, Formula, bound_ticks, from_table
from chunkfit.scheduler.dtypes import Status
from chunkfit.scheduler.policies import policy
from chunkfit.scheduler.policies.registry import accepts, decide
from chunkfit.scheduler.serving_state import Limits, mean_context
from chunkfit.scheduler.simulate import simulate

ONE = policy("sloweave", prefills=1)
EXACT = SLOWEAVE.cost()


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 1 << 30))
def test_the_chunk_is_safe_and_no_larger_one_is(seed):
    """Proposition 1, over all c, for formulas and tables, with unequal contexts and targets."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(3)
    cost = (
        (SLOWEAVE, CURVED)[kind].cost()
        if kind < 2
        else from_table(random_table(int(rng.integers(10_000)), holes=bool(rng.integers(2))))
    )
    decodes = [
        {"target": int(rng.integers(1, 30)), "tpot_ms": rng.uniform(0, 20), "last_token_ms": -rng.uniform(0, 5)}
        for _ in range(rng.integers(1, 6))
    ]
    target = int(rng.integers(1, 400))
    state = state_of(ONE, decodes, [{"target": target, "computed": int(rng.integers(0, target))}])
    n, k, longest = len(decodes), mean_context(state), int(state.scalars[0]["longest_context"])
    waiting = state.requests[n]
    u, rest = int(waiting["computed"]), target - int(waiting["computed"])
    if longest > cost.head[0].context_length:
        return  # no such request
    deadline = min(int(state.requests[i]["last_token"] + state.requests[i]["tpot"]) for i in range(n))
    budget = max(0, deadline - int(state.scalars[0]["now"]))
    if decide(state, cost) == OUTSIDE:
        assert (
            bound_ticks(cost, n, k, longest, 0, 0, 0) == OUTSIDE or bound_ticks(cost, n, k, longest, 1, u, 1) == OUTSIDE
        )
        return
    safe = [
        c
        for c in range(1, rest + 1)
        if OUTSIDE != bound_ticks(cost, n, k, longest, c, u, 1) <= budget
        and bound_ticks(cost, n, k, k, 0, 0, 0) <= budget
    ]
    assert sum(chunks_of(state).values()) == max(safe, default=0)


@pytest.mark.parametrize("deadline", ["per_token", "schedule"])
@pytest.mark.parametrize("prefills", [1, 8])
def test_with_the_exact_cost_no_decode_is_late_because_of_a_chunk(deadline, prefills):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        requests = random_workload(rng, 20)
        chosen = policy("sloweave", prefills=prefills, deadline=deadline)
        cost = STEEP.cost()
        log = simulate(requests, chosen, cost, cost, random_limits(rng, requests), log=True).log
        mixed = log[(log["chunk_tokens"] > 0) & (log["decodes"] > 0)]
        assert (mixed["latency_ms"] <= mixed["slack_ms"]).all()


@pytest.mark.parametrize(("decodes", "chunk"), [(4, 1355), (40, 1025)])
def test_the_worked_examples(decodes, chunk):
    state = state_of(ONE, [{"tpot_ms": 10.0}] * decodes, [{"target": 4096}])
    assert decide(state, EXACT) == 0
    assert chunks_of(state) == {decodes: chunk}


def test_no_decodes_no_deadline_and_no_room_no_chunk():
    state = state_of(ONE, queue=[{"target": 9000}])
    decide(state, EXACT)
    assert chunks_of(state) == {0: 4096}
    late = state_of(ONE, [{"tpot_ms": 10.0, "last_token_ms": -20.0}], [{"target": 9000}])
    decide(late, EXACT)
    assert chunks_of(late) == {}


def test_the_tightest_target_and_the_oldest_token_decide():
    fast = {"tpot_ms": 10.0, "last_token_ms": 0.0}
    slow = {"tpot_ms": 100.0, "last_token_ms": -91.0}
    for decodes, budget in (([fast], 10.0), ([fast, slow], 9.0), ([slow], 9.0)):
        state = state_of(ONE, decodes, [{"target": 4096}])
        decide(state, EXACT)
        n = len(decodes)
        # The cost is affine: what is left of the budget, over 0.006 ms a token.
        assert chunks_of(state)[n] == int((budget - 0.35 - 0.90 - 0.055 * n - 0.40) / 0.006 + 1e-6)


def test_a_margin_of_the_priority_shrinks_the_chunk():
    margin = policy("sloweave", margin=(0.25, 0.0, 0.0, 0.0))
    for priority, budget in ((0, 8.0), (1, 10.0), (7, 10.0)):
        state = state_of(margin, [{"tpot_ms": 10.0, "priority": priority}], [{"target": 4096}])
        decide(state, EXACT)
        assert chunks_of(state)[1] == int((budget - 0.35 - 0.955 - 0.40) / 0.006 + 1e-6)


def test_several_prefills_by_first_fit():
    queue = [{"target": 300}, {"target": 500}, {"target": 5000}, {"target": 10}]
    state = state_of(policy("sloweave"), [{"tpot_ms": 10.0}], queue)
    decide(state, EXACT)
    total = int((10.0 - 0.35 - 0.955 - 0.40) / 0.006 + 1e-6)
    assert chunks_of(state) == {1: 300, 2: 500, 3: total - 800}
    alone = state_of(ONE, [{"tpot_ms": 10.0}], queue)
    decide(alone, EXACT)
    assert chunks_of(alone) == {1: 300}


def test_aging_exceeds_the_budget_once_in_eight_iterations_and_is_counted():
    aging = policy("sloweave", prefills=1, aging_ms=100.0)
    decodes, queue = [{"tpot_ms": 10.0, "last_token_ms": 200.0}], [{"target": 4096}]
    state = state_of(aging, decodes, queue, now_ms=200.0)
    decide(state, EXACT)
    assert chunks_of(state) == {1: int((15.0 - 1.705) / 0.006 + 1e-6)}
    assert state.scalars[0]["exceptions"] == 1
    state.scalars[0]["iteration"] += 7
    decide(state, EXACT)
    assert chunks_of(state) == {1: int((10.0 - 1.705) / 0.006 + 1e-6)}
    state.scalars[0]["iteration"] += 1
    decide(state, EXACT)
    assert state.scalars[0]["exceptions"] == 2
    young = state_of(aging, decodes, [{"target": 4096, "arrival_ms": 150.0}], now_ms=200.0)
    decide(young, EXACT)
    assert young.scalars[0]["exceptions"] == 0


def test_aging_feeds_a_prefill_that_would_starve():
    """Decodes that leave nothing of their target: without aging the second request waits for the first's end."""
    requests = workload(2, prompt_tokens=[10, 1000], output_tokens=[400, 1], tpot_ms=1.5, arrival_ms=[0.0, 1.0])
    first = {}
    for aging in (0.0, 50.0):
        chosen = policy("sloweave", aging_ms=aging)
        run = simulate(requests, chosen, EXACT, EXACT, Limits(8, 1000))
        first[aging] = run.results["first_token_ms"][1]
        assert (run.exceptions > 0) == (aging > 0)
    assert first[50.0] < 200 < first[0.0]


def test_admission_control_refuses_when_decodes_alone_would_fill_the_target():
    # 0.35 + 0.90 + 0.055 n against 0.95 x 2: the twelfth decode still fits, since 1.25 + 0.66 = 1.91 > 1.9 does not.
    chosen = policy("sloweave", admission=True)
    for decodes, taken in ((10, True), (11, False)):
        state = state_of(chosen, [{"tpot_ms": 2.0}] * decodes, [{"tpot_ms": 2.0}])
        assert accepts(state, EXACT, decodes) is taken
    slower = state_of(chosen, [{"tpot_ms": 2.0}] * 11, [{"tpot_ms": 100.0}])
    assert not accepts(slower, EXACT, 11)  # the tightest target of those who decode counts


def test_admission_control_keeps_the_targets_of_those_it_takes():
    """Decodes that get slower as their contexts grow, so that too many were let in when they were young."""
    cost = Formula(overhead=1.0, decode_context=1e-3).cost()
    requests = workload(60, tpot_ms=5.0, output_tokens=400, arrival_ms=np.arange(60) * 20.0)
    kept = {}
    for admission in (False, True):
        run = simulate(requests, policy("sloweave", admission=admission), cost, cost, Limits(64, 10_000))
        finished = run.results["status"] == Status.FINISHED
        assert finished.all() != admission
        kept[admission] = (run.results["mean_gap_ms"] <= 5.0)[finished].mean()
    assert kept[True] > kept[False]


def test_deadlines_on_a_schedule_save_slack():
    """Ten tokens early on the schedule: ten targets more to spend."""
    decode = {"tpot_ms": 10.0, "ttft_ms": 100.0, "generated": 3, "last_token_ms": 20.0}
    chunks = {}
    for model in ("per_token", "schedule"):
        state = state_of(policy("sloweave", deadline=model), [decode], [{"target": 100_000}], now_ms=20.0)
        decide(state, EXACT)
        chunks[model] = chunks_of(state)[1]
    # per token: 20 + 10 ms; schedule: 100 + 3 x 10 ms, so 110 ms are left, over the largest chunk
    assert chunks == {"per_token": int((10.0 - 1.705) / 0.006 + 1e-6), "schedule": 4096}
