"""The synthetic device's closed forms against simulation."""

import time

import numpy as np
import pytest

from chunkfit.profiler.devices import open_device, truth
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.sampling import draw
from chunkfit.profiler.synthetic_profile import synthetic_profile
from chunkfit.tables.batch import Batch

POINTS = np.asarray([[40, 1000, 256, 0], [128, 2000, 0, 0], [0, 0, 2048, 16_384], [1, 16, 127, 0], [1, 16, 128, 0]])


def simulated(point, sessions=400, iterations=500):
    """Times of one point over many sessions: 200,000 draws."""
    points = np.repeat(POINTS[point : point + 1], iterations, axis=0)
    visits = np.arange(iterations)
    return np.concatenate([truth.sample_ms(points, visits, seed, "any") for seed in range(sessions)])


def test_base_follows_the_formula():
    n, k, c, u = 40, 1000, 256, 512
    expected = 0.045 * 296 * 1.08 + 6e-5 * n * k + 0.01 * n + 0.4 + 6e-5 * u + 2.5e-6 * c * (u + c / 2)
    assert truth.base_ms(np.asarray([[n, k, c, u]]))[0] == pytest.approx(expected, rel=1e-12)
    assert truth.base_ms(np.asarray([[1, 16, 0, 0]]))[0] == pytest.approx(8 + 6e-5 * 16 + 0.01, rel=1e-12)


def test_the_step_is_eight_percent():
    before, after = truth.base_ms(POINTS[3:5])
    assert after - before == pytest.approx(0.08 * 8.0, abs=1e-3)


@pytest.mark.parametrize("point", [0, 2])
def test_quantiles_and_coverage_match_simulation(point):
    times = simulated(point)
    here = POINTS[point : point + 1]
    # 400 sessions of sd 0.5% leave 0.03% in the mean of the log.
    assert np.median(times) == pytest.approx(truth.median_ms(here)[0], rel=1.5e-3)
    for q in (0.01, 0.5, 0.9, 0.99, 0.999):
        bound = truth.quantile_ms(here, q)
        share = np.mean(times <= bound)
        assert share == pytest.approx(q, abs=max(0.02 * (q == 0.5), 4 * (q * (1 - q) / 200_000) ** 0.5 + 0.004))
        assert truth.coverage(here, bound)[0] == pytest.approx(q, abs=1e-9)


def test_ratio_cdf_matches_an_independent_integral():
    """Over the tail's own variable instead of the normal's."""
    from scipy.integrate import quad
    from scipy.special import ndtr

    sd = (0.01**2 + 0.005**2) ** 0.5
    for ratio in (0.97, 1.0, 1.02, 1.1, 1.5):
        kink = max(0.0, (ratio - 1) / 0.08)
        tail, _ = quad(
            lambda x, r=ratio: np.exp(-x) * ndtr(np.log(r / (1 + 0.08 * x)) / sd),
            0,
            60,
            points=[kink] if kink else None,
            limit=200,
        )
        expected = 0.98 * ndtr(np.log(ratio) / sd) + 0.02 * tail
        assert truth.ratio_cdf(ratio)[0] == pytest.approx(expected, abs=1e-8)


def test_coverage_in_one_session_matches_simulation():
    here = POINTS[:1]
    times = truth.sample_ms(np.repeat(here, 200_000, axis=0), np.arange(200_000), 3, "calibrate")
    factor = truth.session_factor(3, "calibrate")
    for q in (0.5, 0.9, 0.99):
        bound = truth.quantile_ms(here, q) * factor
        assert truth.coverage(here, bound, factor)[0] == pytest.approx(np.mean(times <= bound), abs=0.003)
    assert truth.coverage(here, truth.quantile_ms(here, 0.9), factor)[0] != pytest.approx(0.9, abs=0.003)


def test_the_node_effect_is_frozen_and_normal():
    points = draw(SYNTHETIC_DOMAIN, 3000, (), 0).points
    effect = np.log(truth.node_ms(points) / truth.base_ms(points))
    assert np.std(effect) == pytest.approx(0.005, rel=0.06)
    assert abs(np.mean(effect)) < 0.0004
    assert (truth.node_ms(points[::-1])[::-1] == truth.node_ms(points)).all()
    # Neighbours are independent of each other.
    assert abs(np.corrcoef(effect[:-1], effect[1:])[0, 1]) < 0.06


def test_sessions_differ_by_half_a_percent():
    factors = np.log([truth.session_factor(seed, "fit") for seed in range(1500)])
    assert np.std(factors) == pytest.approx(0.005, rel=0.08)
    assert truth.session_factor(0, "fit") != truth.session_factor(0, "test")


def test_two_percent_of_iterations_are_in_the_tail():
    points = np.repeat(POINTS[:1], 50_000, axis=0)
    ratio = (
        truth.sample_ms(points, np.arange(50_000), 0, "fit") / truth.node_ms(points) / truth.session_factor(0, "fit")
    )
    # Beyond 4 body sds: the tail's share of Exp(0.08) > 0.04, about.
    assert np.mean(ratio > 1.045) == pytest.approx(0.02 * np.exp(-0.045 / 0.08), rel=0.15)
    assert np.std(np.log(ratio[ratio < 1.03])) == pytest.approx(0.01, rel=0.03)


def test_the_device_draws_the_truth():
    device = open_device("synthetic", "tiny", SYNTHETIC_DOMAIN, seed=5, session="test")
    device.prepare(Batch.of(40, 1000, 256, 0))
    times = [device.run().latency_ms for _ in range(4)]
    expected = truth.sample_ms(np.repeat(POINTS[:1], 4, axis=0), np.arange(4), 5, "test")
    assert times == expected.tolist()
    assert device.fingerprint.synthetic
    assert "SYNTHETIC" in device.fingerprint.title()


def test_a_batch_of_equal_contexts_and_one_chunk_has_factor_one():
    for point in POINTS.tolist():
        assert truth.layout_factor(Batch.of(*point)) == 1.0


def test_unequal_contexts_and_several_chunks_cost_what_is_written():
    base = truth.base_ms(np.asarray([[4, 250, 300, 100]]))[0]
    unequal = truth.layout_factor(Batch.with_chunks([700, 100, 100, 100], [(300, 100)]))
    assert (unequal - 1) * base == pytest.approx(1e-4 * 450, rel=1e-9)
    three = truth.layout_factor(Batch.with_chunks([250] * 4, [(100, 0), (150, 100), (50, 0)]))
    attention = 100 * 50 + 150 * (100 + 75) + 50 * 25 - 300 * (100 + 150)
    assert (three - 1) * base == pytest.approx(0.8 + 2.5e-6 * attention, rel=1e-9)


def test_no_batch_takes_longer_than_if_all_contexts_were_the_longest():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n = int(rng.integers(2, 60))
        contexts = np.exp(rng.uniform(0, 9, n)).astype(int)
        contexts[0] += -int(contexts.sum()) % n  # a mean without a fraction
        batch = Batch.with_chunks(contexts.tolist(), [])
        longest = Batch.of(n, int(contexts.max()))
        times = [truth.base_ms(np.asarray([b.point()]))[0] * truth.layout_factor(b) for b in (batch, longest)]
        assert times[0] <= times[1]


def test_the_device_runs_a_batch_as_it_is_spread():
    device = open_device("synthetic", "tiny", SYNTHETIC_DOMAIN, seed=5, session="fit")
    batch = Batch.with_chunks([700, 100, 100, 100], [(100, 0), (200, 100)])
    device.prepare(batch)
    alike = truth.sample_ms(np.asarray([batch.point()]), np.arange(1), 5, "fit")[0]
    assert device.run().latency_ms == pytest.approx(alike * truth.layout_factor(batch), rel=1e-12)


def test_a_synthetic_profile_is_whole_deterministic_and_fast():
    begin = time.perf_counter()
    profile = synthetic_profile(4)
    assert time.perf_counter() - begin < 1.0
    assert [len(profile.select(session)) for session in ("fit", "calibrate", "test")] == [3000, 1000, 1000]
    assert len(profile.select("fit", role="anchor")) == 3 * 48
    assert all(meta.sentinel.quiet for meta in profile.meta.sessions.values())
    again = synthetic_profile(4)
    assert (again.columns["latency_ms"] == profile.columns["latency_ms"]).all()
    other = synthetic_profile(5)
    assert not np.isin(other.columns["latency_ms"], profile.columns["latency_ms"]).any()
    test = profile.select("test")
    in_session = truth.node_ms(test.points()) * truth.session_factor(4, "test")
    assert np.median(test.columns["latency_ms"] / in_session) == pytest.approx(1.0003, abs=1.5e-3)
