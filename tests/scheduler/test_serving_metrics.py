"""Metrics by hand: who is good, over what, and what counts as a miss."""

import numpy as np
import pytest

from chunkfit.files.errors import UsageError
from chunkfit.scheduler.dtypes import Status
from chunkfit.scheduler.serving_metrics import CRITERIA, figures, good_requests, measure, over_seeds, summary
from tests.support.runs import finished, never_started, requests_of


def test_a_request_is_good_when_it_meets_ttft_and_its_gate():
    requests = requests_of(4)
    results = finished(requests, ttft_ms=np.array([999, 1001, 500, 500]), gap_ms=np.array([20.0, 20, 30, 20]))
    assert good_requests(requests, results, "per_token").tolist() == [True, False, False, True]


def test_the_gates_differ_where_they_should():
    """Uneven gaps: the mean is in time, one gap is not, and the schedule had slack for it."""
    requests = requests_of(1)
    results = finished(requests, 100.0, 10.0)
    results["p99_gap_ms"], results["largest_gap_ms"] = 60.0, 60.0
    good = {criterion: bool(good_requests(requests, results, criterion)[0]) for criterion in CRITERIA}
    assert good == {"per_token": False, "schedule": True, "mean_gap": True}
    results["schedule_misses"] = 1
    assert not good_requests(requests, results, "schedule")[0]


def test_an_iteration_that_ends_on_the_deadline_is_in_time():
    """Targets and times are rounded to multiples of 2^-14 ms on the way."""
    requests = requests_of(2, ttft_ms=1000 / 3, tpot_ms=0.3)
    tick = 2.0**-14
    results = finished(
        requests, np.ceil(1000 / 3 / tick) * tick, np.array([np.ceil(0.3 / tick), 0.3 / tick + 2]) * tick
    )
    assert good_requests(requests, results, "per-token").tolist() == [True, False]


def test_one_token_has_no_gap_to_miss():
    requests = requests_of(1, output_tokens=1)
    results = finished(requests, 100.0, np.nan)
    results["finish_ms"] = 100.0
    assert good_requests(requests, results, "per_token")[0]


def test_the_batch_class_has_a_target_for_its_last_token_alone():
    requests = requests_of(2, np.nan, np.nan, batch_class=1, ttlt_ms=20_000.0)
    results = finished(requests, ttft_ms=np.array([15_000.0, 15_000.0]), gap_ms=np.array([499.0, 501.0]))
    results["schedule_misses"] = 11
    for criterion in CRITERIA:
        assert good_requests(requests, results, criterion).tolist() == [True, False]


@pytest.mark.parametrize("status", [Status.REFUSED, Status.UNFINISHED])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_what_did_not_finish_is_a_miss_and_stays_in_the_denominator(status, criterion):
    requests = requests_of(4)
    results = finished(requests, 100.0, 10.0)
    never_started(results, slice(2, 4), status)
    group = measure(requests, results, criterion, 10_000).groups["all"]
    assert (group.requests, group.good, group.good_share) == (4, 2, 0.5)
    assert (group.refused, group.unfinished) == ((2, 0) if status == Status.REFUSED else (0, 2))
    assert group.ttft_met == 0.5
    assert group.ttft_ms.count == 2


def test_a_started_but_unfinished_request_is_a_miss():
    requests = requests_of(1)
    results = finished(requests, 100.0, 10.0)
    results["status"], results["finish_ms"] = Status.UNFINISHED, np.nan
    assert not good_requests(requests, results, "per_token")[0]


def test_goodput_is_over_the_whole_run():
    requests = requests_of(10)
    metrics = measure(requests, finished(requests, 100.0, 10.0), "per_token", 20_000)
    assert metrics.makespan_s == 20
    assert metrics.groups["all"].goodput_per_s == 0.5
    assert metrics.groups["all"].tokens_per_s == 110 / 20


def test_a_quantile_is_over_requests_not_over_tokens():
    """One request with a thousand slow tokens is one request among ten."""
    requests = requests_of(10, output_tokens=[1001] + [11] * 9)
    gaps = np.array([50.0] + [10.0] * 9)
    group = measure(requests, finished(requests, 100.0, gaps), "per_token", 1e6).groups["all"]
    assert group.mean_gap_ms.p50 == 10
    assert group.mean_gap_ms.p90 == 10
    assert group.mean_gap_ms.p99 == 50
    assert group.mean_gap_ms.mean == pytest.approx(14)


def test_classes_and_applications_stand_beside_the_whole():
    requests = requests_of(6, application=[0, 0, 0, 1, 1, 1])
    requests["batch_class"][5], requests["ttlt_ms"][5] = 1, 1e6
    results = finished(requests, ttft_ms=np.array([1.0, 1, 1, 9999, 9999, 1]), gap_ms=np.full(6, 10.0))
    groups = measure(requests, results, "schedule", 30_000).groups
    assert list(groups) == ["all", "interactive", "batch", "application 0", "application 1"]
    assert groups["all"].good_share == pytest.approx(4 / 6)
    assert groups["application 0"].good_share == 1
    assert groups["application 1"].good_share == pytest.approx(1 / 3)
    assert groups["interactive"].requests == 5
    assert sum(groups[name].good for name in ("interactive", "batch")) == groups["all"].good
    assert list(measure(requests[:3], results[:3], "schedule", 30_000).groups) == ["all"]


def test_schedule_misses_are_shares_of_the_started():
    requests = requests_of(4)
    results = finished(requests, 100.0, 10.0)
    never_started(results, [3], Status.REFUSED)
    results["schedule_misses"][0] = 7
    group = measure(requests, results, "schedule", 10_000).groups["all"]
    assert group.missing_schedule == pytest.approx(1 / 3)
    assert group.schedule_misses == 7


def test_nothing_that_ran_gives_no_quantiles():
    requests = requests_of(2)
    results = finished(requests, 100.0, 10.0)
    never_started(results, slice(None), Status.REFUSED)
    group = measure(requests, results, "per_token", 1.0).groups["all"]
    assert (group.good_share, group.missing_schedule, group.ttft_ms.p99) == (0.0, 0.0, None)


def test_what_cannot_be_measured_is_refused():
    requests = requests_of(2)
    results = finished(requests, 100.0, 10.0)
    with pytest.raises(UsageError, match="criterion 'p99' is unknown; expected one of per_token, schedule, mean_gap"):
        good_requests(requests, results, "p99")
    with pytest.raises(UsageError, match="1 results for 2 requests"):
        good_requests(requests, results[:1], "schedule")
    for end_ms in (0.0, 1000.0, np.nan, np.inf):
        with pytest.raises(UsageError, match="expected an end after it"):
            measure(requests, results, "schedule", end_ms)


def test_over_seeds():
    spread = over_seeds([1.0, 2.0, 3.0])
    assert (spread.seeds, spread.mean, spread.sd, spread.least, spread.most) == (3, 2.0, 1.0, 1.0, 3.0)
    assert over_seeds([4.0]).sd is None
    with pytest.raises(UsageError, match="no run"):
        over_seeds([])


def test_a_summary_is_over_the_seeds_that_have_the_figure():
    requests = requests_of(4)
    runs = [finished(requests, 100.0, gap) for gap in (10.0, 20.0, 30.0)]
    never_started(runs[1], slice(None), Status.REFUSED)
    groups = [measure(requests, results, "per_token", 10_000).groups["all"] for results in runs]
    found = summary(groups)
    assert found["good_share"].mean == pytest.approx(1 / 3)
    assert found["good_share"].seeds == 3
    assert (found["mean_gap_ms_p50"].seeds, found["mean_gap_ms_p50"].mean) == (2, 20.0)
    assert summary([groups[1]]).keys() == {name for name, value in figures(groups[1]).items() if value is not None}
    assert "ttft_ms_p99" not in summary([groups[1]])
