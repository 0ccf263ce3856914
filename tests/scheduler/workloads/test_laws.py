"""Laws of lengths have their printed figures; arrival processes their mean rate, variation and waves."""

import numpy as np
import pytest

from chunkfit.files.errors import UsageError
from chunkfit.scheduler.workloads import laws
from chunkfit.scheduler.workloads.laws import PROCESSES, Lognormal, Shape, gamma, on_off, poisson, square
from chunkfit.scheduler.workloads.registry import workload

BURSTY = Shape(cv=1, period_ms=4000, on_ms=1000, peak=2.93)
SHAPES = {
    "poisson": BURSTY,
    "gamma": Shape(cv=2, period_ms=1, on_ms=1, peak=1),
    "on-off": BURSTY,
    "square": Shape(cv=1, period_ms=2000, on_ms=1000, peak=10 / 7),
}


def draw(name, rate, count=40_000, seed=0):
    return PROCESSES[name][0](np.random.default_rng(seed), count, rate, SHAPES[name])


@pytest.mark.parametrize("name", PROCESSES)
def test_the_mean_rate_is_the_one_asked_for(name):
    arrival_ms = draw(name, 80)
    assert len(arrival_ms) / arrival_ms[-1] * 1000 == pytest.approx(80, rel=0.03)
    assert (np.diff(arrival_ms) >= 0).all()
    assert arrival_ms[0] >= 0


@pytest.mark.parametrize("name", PROCESSES)
def test_a_higher_rate_brings_every_request_sooner(name):
    assert (draw(name, 55) < draw(name, 50)).all()


def test_gamma_waiting_times_have_the_variation_asked_for():
    waits = np.diff(draw("gamma", 80))
    assert waits.std() / waits.mean() == pytest.approx(2, rel=0.05)
    smooth = np.diff(gamma(np.random.default_rng(0), 40_000, 80, Shape(0.25, 1, 1, 1)))
    assert smooth.std() / smooth.mean() == pytest.approx(0.25, rel=0.05)


def test_gamma_of_variation_one_is_poisson():
    wait = np.diff(gamma(np.random.default_rng(0), 40_000, 10, Shape(1, 1, 1, 1)))
    expected = np.diff(poisson(np.random.default_rng(1), 40_000, 10, BURSTY))
    shares = (0.1, 0.5, 0.9, 0.99)
    assert np.quantile(wait, shares) == pytest.approx(np.quantile(expected, shares), rel=0.06)


def test_a_burst_starts_on_and_has_its_share():
    within = draw("on-off", 55) % 4000
    assert (within < 1000).mean() == pytest.approx(2.93 / 4, abs=0.01)
    # Off is (4 - 2.93) / 3 of the mean rate, the same in each second of it.
    for second in (1000, 2000, 3000):
        assert ((within >= second) & (within < second + 1000)).mean() == pytest.approx((4 - 2.93) / 12, abs=0.01)


def test_the_square_wave_starts_low_and_alternates_one_and_two_and_a_half():
    shape = Shape(cv=1, period_ms=240_000, on_ms=120_000, peak=10 / 7)
    arrival_ms = square(np.random.default_rng(3), 30_000, 1.75, shape)
    whole = arrival_ms[arrival_ms < arrival_ms[-1] // 240_000 * 240_000]
    half = np.bincount((whole // 120_000).astype(int))
    assert half[0::2].mean() / 120 == pytest.approx(1.0, rel=0.05)
    assert half[1::2].mean() / 120 == pytest.approx(2.5, rel=0.05)


def test_a_wave_may_be_silent_while_off():
    arrival_ms = on_off(np.random.default_rng(0), 5000, 40, Shape(1, 4000, 1000, 4))
    assert (arrival_ms % 4000 <= 1000 + 1e-6).all()


@pytest.mark.parametrize(("on_ms", "peak"), [(1000, 4.1), (4000, 1), (5000, 0.5)])
def test_an_impossible_wave_is_refused(on_ms, peak):
    with pytest.raises(UsageError, match=r"expected on below period and peak x on at most the period"):
        on_off(np.random.default_rng(0), 10, 40, Shape(1, 4000, on_ms, peak))


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
    parts = getattr(laws, name.upper())
    for application, part in enumerate(parts):
        prompts = made.requests["prompt_tokens"][made.requests["application"] == application]
        assert np.median(prompts) == pytest.approx(part.prompt.median_tokens, rel=0.05)
