"""Late tokens are counted once each, first tokens apart, and the numbers travel whole."""

import pytest

from chunkfit.integrations.vllm.counters import Counters
from chunkfit.integrations.vllm.followed import FollowedRequests
from chunkfit.scheduler.serving_state import NEVER


@pytest.mark.parametrize(("leave_out", "schedule"), [(False, 60), (True, NEVER)])
def test_misses_and_the_schedule_of_a_late_first_token(leave_out, schedule):
    followed = FollowedRequests(leave_out)
    followed.join("a", 0, 50, 10)
    followed.join("a", 99, 1, 1)  # further input of the same request
    for now in (60, 70, 81, 91):
        followed.token("a", now)
    assert (followed.misses, followed.late_first_tokens) == (1, 1)
    assert followed["a"].schedule == schedule
    assert followed["a"].last_token == 91


def test_those_who_left_are_forgotten():
    followed = FollowedRequests(False)
    for name in "abc":
        followed.join(name, 0, 50, 10)
    followed.keep({"b"})
    assert len(followed) == 1
    assert followed["b"].tpot == 10
    followed.token("a", 1000)
    assert (followed.misses, followed.late_first_tokens) == (0, 0)


def test_counters_travel_as_whole_numbers():
    counters = Counters(
        chunk_tokens=128, budget_us=25_000, bound_us=24_100, decisions=4, decision_us_total=100, outside=1
    )
    sent = counters.sent()
    assert all(type(value) is int and key.startswith("chunkfit_") for key, value in sent.items())
    assert Counters.received(sent | {"other": 1}) == counters
    assert Counters.received({"an-adapter": 3}) is None
    assert "1 of 4 decisions outside the table and 0 by order, 25 us each" in counters.title()
