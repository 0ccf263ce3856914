"""Capacity on a made-up queue whose answer is known, and on shares that do not fall."""

import pytest

from chunkfit.files.errors import UsageError
from chunkfit.scheduler.capacity import capacity
from chunkfit.scheduler.serving_metrics import good_requests
from chunkfit.scheduler.workloads.registry import workload
from tests.support.runs import served_in_order


def queue(rate, seed):
    """Share in time of a server that does 10 requests/s, TTFT target 1 s."""
    made = workload(f"chat:rate={rate!r},requests=400,ttft=1s", seed).requests
    return float(good_requests(made, served_in_order(made, 100.0), "per_token").mean())


def test_bisection_finds_where_a_known_share_crosses():
    found = capacity(lambda rate, seed: 1 / (1 + (rate / 50) ** 8), [0], 0.9, 1, 1000, tolerance=0.001)
    crossing = 50 * (1 / 0.9 - 1) ** (1 / 8)
    assert found.rate <= crossing <= found.above
    assert found.above / found.rate <= 1.001
    assert found.orderly


def test_a_queue_bears_less_than_it_can_serve():
    found = capacity(queue, range(5), 0.9, 1, 40, tolerance=0.02)
    assert 7 < found.rate < 10
    assert found.orderly
    shares = {tried.rate: tried.good for tried in found.tried}
    assert shares[found.rate].mean >= 0.9 > shares[found.above].mean
    assert shares[found.rate].seeds == 5
    assert found == capacity(queue, range(5), 0.9, 1, 40, tolerance=0.02)


def test_common_random_numbers_make_the_share_fall_with_the_rate_for_each_seed():
    for seed in range(5):
        shares = [queue(rate, seed) for rate in (6, 7, 8, 9, 10, 12, 15)]
        assert shares == sorted(shares, reverse=True)


def test_both_ends_of_the_range_are_answers():
    assert capacity(lambda rate, seed: 1.0, [0, 1], 0.99, 1, 8).rate == 8
    assert capacity(lambda rate, seed: 1.0, [0, 1], 0.99, 1, 8).above is None
    nothing = capacity(lambda rate, seed: 0.5, [0, 1], 0.99, 1, 8)
    assert (nothing.rate, nothing.above, len(nothing.tried)) == (0.0, 1, 1)


def test_a_share_that_rises_again_is_told():
    wavy = {1: 0.95, 16: 0.1, 4: 0.99}
    found = capacity(lambda rate, seed: wavy.get(round(rate), 0.2), [0], 0.9, 1, 16, tolerance=0.9)
    assert not found.orderly


@pytest.mark.parametrize(
    ("share", "low", "high", "tolerance"),
    [(0, 1, 2, 0.1), (1.1, 1, 2, 0.1), (0.9, 2, 1, 0.1), (0.9, 0, 1, 0.1), (0.9, 1, 2, 0)],
)
def test_impossible_searches_are_refused(share, low, high, tolerance):
    with pytest.raises(UsageError, match="expected rates above 0 in ascending order"):
        capacity(queue, [0], share, low, high, tolerance)


def test_no_seed_is_refused():
    with pytest.raises(UsageError, match="no run"):
        capacity(queue, [], 0.9, 1, 2)
