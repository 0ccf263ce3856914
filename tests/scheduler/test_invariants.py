"""What holds in every run, whatever the policy: on random workloads, limits and costs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.serving import STEEP, check_run, random_limits, random_workload

from chunkfit.scheduler.cost import SLOWEAVE, noise_factors, scaled
from chunkfit.scheduler.policies import FAMILIES, policy
from chunkfit.scheduler.simulate import Conditions, simulate

POLICIES = [
    "full",
    "fixed-64",
    "token-budget-64",
    "sarathi-edf-64",
    "sloweave",
    "slidingserve-64",
    "qoserve-512",
]
OPTIONS = {
    "sloweave": {"prefills": [1, 8], "aging_ms": [0.0, 20.0], "admission": [False, True], "align": [1, 16],
                 "deadline": ["per_token", "schedule"], "margin": [(0.0,) * 4, (0.0, 0.1, 0.5, 2.0)]},
    "slidingserve-64": {"sorter": [False, True], "chunker": [False, True], "constructor": [False, True],
                        "late": ["rebase", "leave_out"], "deadline": ["per_token", "schedule"]},
    "qoserve-512": {"variant": ["paper", "code"], "alpha_ms": [0.0, 8.0], "throughput_per_s": [100.0, 8500.0]},
}  # fmt: skip


def test_every_family_is_run():
    assert {policy(name).family for name in POLICIES} == set(FAMILIES)


def random_run(name, seed):
    rng = np.random.default_rng(seed)
    requests = random_workload(rng, int(rng.integers(1, 25)))
    limits = random_limits(rng, requests)
    truth = (SLOWEAVE if rng.random() < 0.3 else STEEP).cost()
    belief = scaled(truth, float(rng.choice([1.0, 0.9, 1.1])))
    options = {option: values[int(rng.integers(len(values)))] for option, values in OPTIONS.get(name, {}).items()}
    chosen = policy(name, **options)
    factors = noise_factors(seed, 0.03)
    return requests, limits, simulate(requests, chosen, belief, truth, limits, Conditions(factors), log=True)


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=200, deadline=None)
@given(st.integers(0, 1 << 30))
def test_invariants(name, seed):
    requests, limits, run = random_run(name, seed)
    check_run(requests, limits, run)
    _, _, again = random_run(name, seed)
    assert again.results.tobytes() == run.results.tobytes()
    assert again.log.tobytes() == run.log.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_invariants_at_length(name):
    """10,000 runs of every policy."""
    for seed in range(10_000):
        check_run(*random_run(name, seed))
