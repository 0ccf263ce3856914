"""The cost model, and how a time budget is shared out."""

import pytest

from chunkfit.profiler.cost import FINISH_S, FIT_SHARE, HEADROOM, CostModel, session_deadline, work_of
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.plan import SESSIONS, PlanOptions, draw_plan

PLAN = draw_plan(SYNTHETIC_DOMAIN, (129,), 0, PlanOptions(fit_points=100, calibrate_points=100, test_points=100))
NEED = {"fit": 100.0, "calibrate": 20.0, "test": 20.0}


def true_seconds(point, iterations):
    n, k, c, u = point.point
    return 0.01 + iterations * (2e-3 + 1e-5 * (n + c) + 1e-8 * n * k + 1e-9 * c * (u + c / 2))


def test_the_model_recovers_a_known_cost():
    cost = CostModel()
    assert cost.session_seconds(PLAN, PLAN.test) == 0.0
    for point in PLAN.fit[:60]:
        cost.observe(point, 5, true_seconds(point, 5))
    predicted = cost.seconds(work_of(PLAN.test, 2))
    expected = [true_seconds(point, 3) for point in PLAN.test]
    # Five iterations a point always: what a point costs by itself cannot be told from what five cost.
    assert predicted.sum() == pytest.approx(sum(expected), rel=0.25)
    assert min(cost.coefficients) >= 0


def test_before_there_is_enough_it_expects_the_worst_seen():
    cost = CostModel()
    cost.observe(PLAN.fit[0], 5, 0.2)
    cost.observe(PLAN.fit[1], 5, 0.7)
    assert cost.seconds(work_of(PLAN.test[:3], 2)).tolist() == [0.7] * 3


def test_given_coefficients_hold_until_there_is_better():
    cost = CostModel((1.0, 0.0, 0.0, 0.0, 0.0))
    for point in PLAN.fit[:19]:
        cost.observe(point, 5, 0.01)
    assert cost.coefficients == (1.0, 0.0, 0.0, 0.0, 0.0)
    cost.observe(PLAN.fit[19], 5, 0.01)
    assert cost.seconds(work_of(PLAN.fit[:1], 2))[0] == pytest.approx(0.01, rel=0.5)


def test_later_sessions_get_their_need_first():
    end = 200.0 + FINISH_S
    deadline = session_deadline(0.0, end, SESSIONS, NEED, 2.0)
    assert deadline == pytest.approx(200 - 2 * (HEADROOM * 20 + 2))


def test_the_fit_session_gets_a_third_even_when_others_starve():
    assert session_deadline(0.0, 40 + FINISH_S, SESSIONS, NEED, 2.0) == pytest.approx(FIT_SHARE * 40)
    halves = session_deadline(20.0, 40 + FINISH_S, SESSIONS[1:], NEED, 2.0)
    assert 28.0 < halves < 30.0  # half of it, less what starting the test process costs


def test_unused_time_flows_on():
    assert session_deadline(10.0, 100 + FINISH_S, SESSIONS[1:], NEED, 2.0) == pytest.approx(100 - HEADROOM * 20 - 2)
    assert session_deadline(50.0, 100 + FINISH_S, SESSIONS[2:], NEED, 2.0) == pytest.approx(100)
    assert session_deadline(150.0, 100 + FINISH_S, SESSIONS[2:], NEED, 2.0) == 150.0


LEAST = {"fit": 5.0, "calibrate": 12.0, "test": 3.0}


@pytest.mark.parametrize("seconds", [30, 40, 60, 150, 1000])
def test_what_the_certificate_needs_comes_before_the_fit_session_s_share(seconds):
    """A plan of far more points than the time holds: each session still gets what nothing can be certified without."""
    need = {"fit": 4000.0, "calibrate": 4000.0, "test": 4000.0}
    now = 0.0
    for place, session in enumerate(SESSIONS):
        deadline = session_deadline(now, seconds + FINISH_S, SESSIONS[place:], need, 0.5, LEAST)
        assert deadline - now >= HEADROOM * LEAST[session] - 1e-9
        now = deadline + 0.5
    assert now <= seconds + 0.5 + 1e-9


def test_a_time_that_holds_no_certificate_is_shared_as_ever():
    need = {"fit": 4000.0, "calibrate": 4000.0, "test": 4000.0}
    ever = session_deadline(0.0, 10 + FINISH_S, SESSIONS, need, 0.5)
    assert session_deadline(0.0, 10 + FINISH_S, SESSIONS, need, 0.5, LEAST) == ever


def test_the_sweep_keeps_time_for_as_many_points_as_the_certificate_needs():
    from chunkfit.fitters.margin import points_needed
    from chunkfit.profiler.plan import CERTIFICATE_POINTS

    assert points_needed(0.99, 0.95) == CERTIFICATE_POINTS
