"""Length laws reproduce what they are named after."""

import numpy as np
import pytest

from chunkfit.scheduler.workloads import lengths
from chunkfit.scheduler.workloads.lengths import Lognormal
from chunkfit.scheduler.workloads.registry import workload

NORMAL = np.random.default_rng(0).standard_normal(400_000)


@pytest.mark.parametrize(("mean", "p90"), [(89, 184), (3253, 4382), (356, 542), (6267, 7567), (423, 623)])
def test_mean_and_p90_are_reproduced(mean, p90):
    tokens = Lognormal.of_mean_p90(mean, p90).tokens(NORMAL)
    assert tokens.mean() == pytest.approx(mean, rel=0.01)
    assert np.quantile(tokens, 0.9) == pytest.approx(p90, rel=0.01)


def test_no_lognormal_has_the_printed_mean_of_sharegpt_prompts():
    with pytest.raises(ValueError, match="no lognormal law has mean 357 and P90 1724"):
        Lognormal.of_mean_p90(357, 1724)
    tokens = Lognormal.of_median_p90(357, 1724).tokens(NORMAL)
    assert np.median(tokens) == pytest.approx(357, rel=0.01)
    assert np.quantile(tokens, 0.9) == pytest.approx(1724, rel=0.01)


def test_there_is_always_a_token():
    assert Lognormal(1.0, 3.0).tokens(NORMAL).min() == 1


@pytest.mark.parametrize(
    ("name", "shares"), [("mixed", [0.72, 0.28]), ("mixed_v1", [3 / 4, 1 / 4]), ("mixed_v2", [5 / 6, 1 / 6])]
)
def test_a_mix_has_its_shares_as_applications(name, shares):
    made = workload(f"{name}:requests=20000,ttft=1s", 5)
    assert np.bincount(made.requests["application"]) / 20_000 == pytest.approx(shares, abs=0.01)
    parts = getattr(lengths, name.upper())
    for application, part in enumerate(parts):
        prompts = made.requests["prompt_tokens"][made.requests["application"] == application]
        assert np.median(prompts) == pytest.approx(part.prompt.median_tokens, rel=0.05)
