"""Policies by name, what they refuse, and the static ones by hand."""

import pytest
from support.serving import chunks_of, state_of

from chunkfit.files.errors import UsageError
from chunkfit.scheduler.cost import SLOWEAVE
from chunkfit.scheduler.policies import FAMILIES, policy
from chunkfit.scheduler.policies.registry import decide
from chunkfit.scheduler.serving_state import Limits

COST = SLOWEAVE.cost()


def given(name, decodes=(), queue=(), limits=None, **options):
    state = state_of(policy(name, **options), decodes, queue, limits=limits)
    decide(state, COST)
    return chunks_of(state)


@pytest.mark.parametrize("name", ["fixed-256", "fixed_256", "Fixed-256", "token_budget_512", "sloweave", "full"])
def test_names_with_hyphens_or_underscores(name):
    assert policy(name).name == name.lower().replace("_", "-")


def test_a_name_says_what_is_not_the_default():
    assert policy("fixed").name == "fixed-256"
    assert policy("sloweave", prefills=1, deadline="schedule").name == "sloweave:deadline=schedule,prefills=1"
    assert policy("sloweave", prefills=8).name == "sloweave"
    assert {policy(name).family for name in FAMILIES} == set(FAMILIES)


@pytest.mark.parametrize(
    "options",
    [
        {"family": "sloweave", "margin": (0.1, 1 / 3, 0.0, 0.0), "aging_ms": 20.5, "admission": True},
        {"family": "slidingserve", "token_budget": 2048, "sorter": False, "urgency": 0.1, "late": "leave_out"},
        {"family": "qoserve", "variant": "code", "alpha_ms": 1.0, "throughput_per_s": 100.0},
    ],
)
def test_a_name_makes_the_policy_again(options):
    made = policy(options["family"], **{k: v for k, v in options.items() if k != "family"})
    assert made.name != options["family"]
    assert policy(made.name) == made


def test_texts_carry_their_units():
    made = policy("qoserve-1024:alpha=2ms,throughput=9000/s,deadline=per-token")
    assert made.options["alpha_ms"] == 2.0
    assert made.options["throughput_per_s"] == 9000.0
    assert made.parameters()["alpha"][0] == 2 << 14
    assert policy("slidingserve:chunker=no").options["chunker"] is False


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("fast", {}, "policy 'fast' is unknown; expected one of full, fixed-N"),
        ("full-3", {}, "unknown"),
        ("fixed-", {}, "unknown"),
        ("fixed-0", {}, "policy fixed: chunk_tokens 0: expected a whole number from 1"),
        ("fixed-12x", {}, "unknown"),
        ("full", {"align": 2}, "policy full: option 'align' is unknown; expected prefills"),
        ("sloweave", {"prefills": 0}, "prefills 0: expected a whole number from 1"),
        ("sloweave", {"prefills": True}, "prefills True: expected a whole number from 1"),
        ("sloweave", {"admission": 1}, "admission 1: expected yes or no"),
        ("sloweave:aging=20", {}, "aging '20': expected a number with its unit"),
        ("sloweave:admission=true", {}, "admission 'true': expected yes or no"),
        ("sloweave:prefills", {}, "policy 'sloweave:prefills'.*expected option=value, as in sloweave"),
        ("sloweave:speed=3", {}, "option 'speed' is unknown; expected deadline, chunk_tokens"),
        ("sloweave", {"deadline": "soon"}, "expected one of per_token, schedule"),
        ("sloweave", {"margin": (0.1,)}, "expected 4 shares"),
        ("sloweave", {"margin": (0.1, 0.1, 0.1, -0.1)}, "expected 4 shares"),
        ("slidingserve", {"urgency": float("nan")}, "urgency nan: expected a number from 0"),
        ("qoserve", {"variant": "talk"}, "expected one of paper, code"),
    ],
)
def test_what_cannot_be_meant_is_refused(name, options, message):
    with pytest.raises(UsageError, match=message):
        policy(name, **options)


def test_full_takes_the_oldest_prompt_whole():
    queue = [{"target": 9000}, {"target": 10}]
    assert given("full", [{}] * 3, queue) == {3: 9000}
    assert given("full", [{}] * 3, queue, prefills=2) == {3: 9000, 4: 10}
    assert given("full", [{}] * 3, queue, Limits(64, 10_000, max_chunk_tokens=4096)) == {3: 4096}


def test_fixed_takes_a_chunk_of_the_oldest():
    queue = [{"target": 100, "computed": 70}, {"target": 500}]
    assert given("fixed-64", [{}] * 3, queue) == {3: 30}
    assert given("fixed-64", [{}] * 3, queue, prefills=8) == {3: 30, 4: 34}


def test_a_token_budget_is_for_decodes_then_begun_then_waiting_prefills():
    queue = [{"target": 40}, {"target": 100, "computed": 70}, {"target": 500}]
    assert given("token-budget-100", [{}] * 20, queue) == {21: 30, 20: 40, 22: 10}
    assert given("token-budget-20", [{}] * 20, queue) == {}
    assert given("token-budget-10", [{}] * 20, queue) == {}


def test_sarathi_edf_goes_by_deadline():
    queue = [
        {"target": 40, "ttft_ms": 900.0},
        {"target": 100, "arrival_ms": 100.0, "ttft_ms": 100.0},
        {"target": 500, "ttft_ms": 1e9, "ttlt_ms": 500.0, "batch_class": 1},
    ]
    assert given("sarathi-edf-256", [{}] * 20, queue) == {21: 100, 22: 136}


IN_ORDER = {
    "full": {},
    "fixed-256": {},
    "token-budget-512": {},
    "sarathi-edf-256": {},
    "sloweave": {},
    "slidingserve": {"sorter": False},
    "qoserve": {"alpha_ms": 0.0},
}


@pytest.mark.parametrize("name", IN_ORDER)
def test_nobody_overtakes_who_finds_no_pages_but_those_who_hold_theirs(name):
    """23 pages, 3 of them taken by the begun prefill: 320 tokens do not fit, and 10 must wait behind them."""
    queue = [{"target": 320}, {"target": 10}, {"target": 40, "computed": 20}]
    found = given(name, [], queue, Limits(64, pages=23), **IN_ORDER[name])
    assert found == {2: 20}
    running = given(name, [{"target": 15}] * 3, queue, Limits(4, pages=1000), **IN_ORDER[name])
    assert running == {5: 20}
