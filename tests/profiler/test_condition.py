"""What makes a point suspect, and how often it is worth another try."""

import pytest

from chunkfit.profiler.condition import GIVE_UP_AFTER, MOST_TRIES, DeviceState, ThrottleWatch


def clock(mhz, *reasons):
    return DeviceState(sm_clock_mhz=mhz, throttle=reasons)


def used(mhz=1980, points=10):
    watch = ThrottleWatch()
    for _ in range(points):
        assert not watch.flagged(clock(mhz))
    return watch


@pytest.mark.parametrize("reasons", [(), ("gpu_idle",), ("applications_clocks_setting", "gpu_idle")])
def test_an_idle_gpu_and_a_chosen_clock_are_no_throttle(reasons):
    assert not ThrottleWatch().flagged(clock(1980, *reasons))


@pytest.mark.parametrize("reason", ["sw_power_cap", "hw_thermal_slowdown", "sync_boost", "bit_11"])
def test_any_other_reason_is(reason):
    assert ThrottleWatch().flagged(clock(1980, "gpu_idle", reason))


def test_a_clock_below_the_sessions_usual_one_is_suspect_without_a_reason():
    watch = used()
    assert not watch.flagged(clock(1935))  # three steps of 15 MHz
    assert watch.flagged(clock(1905))
    assert not watch.flagged(clock(1980))


def test_the_usual_clock_is_a_median_that_follows_the_session():
    watch = used(points=9)
    assert not watch.flagged(clock(300)), "too few points to know what is usual"
    assert watch.flagged(clock(1500))
    flags = [watch.flagged(clock(1500)) for _ in range(30)]
    assert flags[0]
    assert not flags[-1], "a card that stays there has a new usual clock"


def test_what_is_unknown_flags_nothing():
    watch = used()
    assert not watch.flagged(DeviceState())
    assert DeviceState().throttle_text() == "unknown"
    assert clock(1).throttle_text() == "none"
    assert clock(1, "gpu_idle", "sw_power_cap").throttle_text() == "gpu_idle,sw_power_cap"


def test_tries_are_bounded_for_a_point_and_for_a_session():
    watch = ThrottleWatch()
    for _ in range(GIVE_UP_AFTER - 1):
        assert [watch.worth_another(True, tries) for tries in range(1, MOST_TRIES + 1)] == [True, True, False]
    assert not watch.worth_another(False, 1)  # one good point, and the count begins anew
    for _ in range(GIVE_UP_AFTER):
        assert [watch.worth_another(True, tries) for tries in range(1, MOST_TRIES + 1)] == [True, True, False]
    assert not watch.worth_another(True, 1)
    assert not watch.worth_another(False, 1)
    assert watch.worth_another(True, 1), "the card has recovered"
