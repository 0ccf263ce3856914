"""The detectors alone: what raises an alarm, and how soon."""

import numpy as np

from chunkfit.fitters.online.drift import MissCusum, PageHinkley


def first_alarm(detector, stream):
    return next((i + 1 for i, x in enumerate(stream) if detector.add(x)), None)


def test_ten_misses_in_a_row_alarm():
    assert first_alarm(MissCusum(0.01, 0.03), [True] * 20) == 10


def test_three_times_the_misses_are_found_and_the_usual_share_is_not():
    rng = np.random.default_rng(0)
    found = [first_alarm(MissCusum(0.01, 0.03), rng.random(20_000) < 0.03) for _ in range(20)]
    assert None not in found
    assert np.mean(found) < 1000
    assert all(first_alarm(MissCusum(0.01, 0.03), rng.random(10_000) < 0.01) is None for _ in range(20))


def test_an_alarm_starts_the_sum_again():
    cusum = MissCusum(0.01, 0.03)
    assert first_alarm(cusum, [True] * 10) == 10
    assert cusum.value == 0
    assert first_alarm(cusum, [True] * 20) == 10


def test_a_rise_of_one_margin_is_found_and_noise_or_a_fall_is_not():
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.4, 20_000)
    assert first_alarm(PageHinkley(), noise.tolist()) is None
    assert first_alarm(PageHinkley(), (noise - 1e-4 * np.arange(20_000)).tolist()) is None
    step = noise + (np.arange(20_000) >= 5000)
    assert 5000 < first_alarm(PageHinkley(), step.tolist()) < 5100


def test_a_single_iteration_of_any_size_is_no_alarm():
    assert first_alarm(PageHinkley(), [0.0] * 100 + [1e9] + [0.0] * 1000) is None


def test_after_an_alarm_the_new_level_is_the_usual_one():
    detector = PageHinkley()
    assert first_alarm(detector, [0.0] * 100 + [1.0] * 200) is not None
    assert first_alarm(detector, [1.0] * 5000) is None
