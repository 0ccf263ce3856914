"""Sessions on devices that fail, stall and lie, with a clock of their own."""

import gc
from collections import Counter

import numpy as np
import pytest

from chunkfit.files.errors import DeviceMemoryError, ProfileFormatError
from chunkfit.fitters.margin import pair_factor
from chunkfit.profiler.condition import Condition, DeviceState
from chunkfit.profiler.cost import CostModel
from chunkfit.profiler.devices.base import Sample
from chunkfit.profiler.devices.synthetic import FINGERPRINT
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.journal import MeasuredLine, SkippedLine, read_journal
from chunkfit.profiler.journal_writer import open_journal
from chunkfit.profiler.plan import PAIR_REPEATS, PlanOptions, draw_plan
from chunkfit.profiler.session import pilot
from chunkfit.profiler.session_run import SessionRun
from chunkfit.profiler.sweep import profile_of_journal
from chunkfit.profiler.timing import side_by_side

PLAN = draw_plan(SYNTHETIC_DOMAIN, (129,), 0, PlanOptions(fit_points=60, calibrate_points=50, test_points=60))
LARGEST = max(point.n * point.k + point.u + point.c for point in PLAN.test)


class FakeDevice:
    """Takes 0.1 s and 0.2 ms a batch token of its own clock; fails or misreports on request."""

    fingerprint = FINGERPRINT

    def __init__(self, largest=10**9, latency_ms=None, states=()):
        self.now = 0.0
        self.states = iter(states)
        self.runs = Counter()
        self.largest = largest
        self.latency_ms = latency_ms
        self.gc_seen = set()

    def clock(self):
        return self.now

    def prepare(self, batch):
        self.batch = batch

    def run(self):
        if self.batch.kv_tokens > self.largest:
            raise DeviceMemoryError(f"{self.batch.kv_tokens} tokens do not fit")
        seconds = 0.1 + 2e-4 * self.batch.batch_tokens
        self.now += seconds
        self.runs[self.batch.point()] += 1
        self.gc_seen.add(gc.isenabled())
        return Sample(seconds * 1e3 if self.latency_ms is None else self.latency_ms, None)

    def state(self):
        return next(self.states, DeviceState())


def measure(path, device, session="test", deadline=None, **options):
    events = []
    with open_journal(path, PLAN, device.fingerprint) as journal:
        run = SessionRun(PLAN, session, device, journal, deadline, events.append, clock=device.clock, **options)
        outcome = run.run()
    return outcome, events


@pytest.fixture
def path(tmp_path):
    return tmp_path / "p.journal.jsonl"


def test_every_point_once_in_the_plans_order_with_sentinels(path):
    device = FakeDevice()
    outcome, events = measure(path, device)
    assert outcome == "complete"
    assert [line.order for line in read_journal(path).lines[1:-1]] == list(range(64))
    lines = read_journal(path).lines[1:-1]
    assert [line.point_id for line in lines if line.role == "point"] == [point.point_id for point in PLAN.test]
    assert [line.order for line in lines if line.role == "sentinel"] == [0, 21, 42, 63]
    assert device.runs[PLAN.test[3].point] == PLAN.warmups + 1
    assert [event.kind for event in events] == ["session", *["progress"] * 60, "end"]
    assert events[-2].done == events[-2].total == 60
    assert events[40].seconds_left == pytest.approx(events[45].seconds_left + device.now * 5 / 60, rel=0.5)


def test_garbage_is_not_collected_while_timing(path):
    device = FakeDevice()
    measure(path, device)
    assert device.gc_seen == {False}
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("deadline", [3.0, 9.0, 14.0])
def test_the_deadline_is_passed_by_one_point_at_most(path, deadline):
    device = FakeDevice()
    outcome, events = measure(path, device, deadline=deadline)
    assert outcome == "deadline"
    slowest = (PLAN.warmups + 1) * (0.1 + 2e-4 * 2176)
    assert device.now <= deadline + slowest
    assert device.now >= deadline - 2 * slowest - 1
    assert "time was up after" in events[-1].message
    contents = read_journal(path)
    assert contents.ended() == {"test"}
    done = contents.done("test")
    assert done == {point.point_id for point in PLAN.test[: len(done)]}
    assert contents.lines[-2].role == "sentinel"


def test_a_deadline_that_is_over_measures_nothing(path):
    device = FakeDevice()
    device.now = 100.0
    cost = CostModel((0.1, 0.1, 0.0, 0.0, 0.0))
    assert measure(path, device, deadline=100.0, cost=cost)[0] == "deadline"
    assert not device.runs


def test_a_point_that_does_not_fit_is_skipped_and_the_sweep_goes_on(path):
    device = FakeDevice(largest=LARGEST - 1)
    outcome, events = measure(path, device)
    assert outcome == "complete"
    skipped = [line for line in read_journal(path).lines if isinstance(line, SkippedLine)]
    assert len(skipped) >= 1
    assert [event.message for event in events if event.kind == "skipped"] == [line.reason for line in skipped]
    profile = profile_of_journal(read_journal(path), "p")
    meta = profile.meta.sessions["test"]
    assert (meta.points, meta.skipped, meta.planned) == (60 - len(skipped), len(skipped), 60)
    assert f"{LARGEST} tokens do not fit" in [point.reason for point in profile.meta.skipped]
    again = FakeDevice()
    measure(path, again)
    assert not again.runs  # a skipped point is not tried again


COOL = DeviceState(sm_clock_mhz=1980, memory_clock_mhz=2619, temperature_c=50, power_w=400.5, throttle=("gpu_idle",))
CAPPED = DeviceState(sm_clock_mhz=1900, throttle=("gpu_idle", "sw_power_cap"))


def recorded(path):
    return [line for line in read_journal(path).lines if line.kind == "measured"]


def test_a_throttled_fit_point_is_measured_again_and_the_last_time_counts(path):
    # The sentinel, a point that is fine at the third time, one that never is, then all is well.
    device = FakeDevice(states=[CAPPED, CAPPED, CAPPED, COOL, CAPPED, CAPPED, CAPPED, *[COOL] * 2000])
    measure(path, device, session="fit")
    sentinel, first, second, third = recorded(path)[:4]
    assert (sentinel.condition.flagged, sentinel.condition.tries) == (True, 1)
    assert (first.condition.flagged, first.condition.tries, first.condition.state) == (False, 3, COOL)
    assert (second.condition.flagged, second.condition.tries, second.condition.state) == (True, 3, CAPPED)
    assert (third.condition.flagged, third.condition.tries) == (False, 1)
    point = PLAN.fit[0]
    assert device.runs[point.point] == 3 * (PLAN.warmups + point.repeats)
    assert len(first.repeats) == point.repeats
    assert second.started_s >= first.ended_s
    profile = profile_of_journal(read_journal(path), "p")
    assert profile.meta.sessions["fit"].flagged == 2
    columns = profile.columns
    rows = columns["point_id"] == second.point_id
    assert set(columns["flagged"][rows].tolist()) == {True}
    assert set(columns["throttle"][rows].tolist()) == {"gpu_idle,sw_power_cap"}
    assert set(columns["tries"][rows].tolist()) == {3}
    assert np.isnan(columns["power_w"][rows]).all()
    assert columns["flagged"].sum() == rows.sum() + PLAN.sentinel.repeats
    cool = columns["point_id"] == third.point_id
    assert (columns["sm_clock_mhz"][cool][0], columns["power_w"][cool][0]) == (1980, 400.5)
    assert (columns["memory_clock_mhz"][cool][0], columns["temperature_c"][cool][0]) == (2619, 50)


def test_a_card_at_its_power_cap_is_taken_as_it_is(path):
    device = FakeDevice(states=[CAPPED] * 5000)
    assert measure(path, device, session="fit")[0] == "complete"
    points = [line for line in recorded(path) if line.role != "sentinel"]
    assert all(line.condition.flagged for line in points)
    five = sum(map(len, side_by_side(PLAN.fit)[:5]))
    assert [line.condition.tries for line in points] == [3] * five + [1] * (len(points) - five)


@pytest.mark.parametrize("session", ["calibrate", "test"])
def test_points_that_must_not_be_chosen_are_flagged_and_never_repeated(path, session):
    device = FakeDevice(states=[CAPPED] * 5000)
    measure(path, device, session=session)
    assert {(line.condition.flagged, line.condition.tries) for line in recorded(path)} == {(True, 1)}
    assert profile_of_journal(read_journal(path), "p").meta.sessions[session].flagged == len(recorded(path))


def test_there_is_no_time_to_measure_again_at_the_deadline(path):
    sentinel, first = PLAN.sentinel, PLAN.fit[0]
    once = (PLAN.warmups + first.repeats) * (0.1 + 2e-4 * (first.n + first.c))
    before = (PLAN.warmups + sentinel.repeats) * (0.1 + 2e-4 * (sentinel.n + sentinel.c))
    for tries in (1, 2):
        device = FakeDevice(states=[CAPPED] * 5000)
        place = path.with_name(f"{tries}.jsonl")
        measure(
            place,
            device,
            session="fit",
            deadline=2 * before + (tries + 0.5) * once,
            cost=CostModel((0, 0.1, 2e-4, 0, 0)),
        )
        assert [line.condition.tries for line in recorded(place)] == [1, tries, 1]


def test_nonsense_from_the_device_stops_the_session(path):
    with pytest.raises(ProfileFormatError, match="expected finite times above 0 ms"):
        measure(path, FakeDevice(latency_ms=float("nan")))


def test_a_killed_session_goes_on_where_it_was(path):
    whole = path.with_name("whole.jsonl")
    measure(whole, FakeDevice(), session="fit")
    first = FakeDevice()
    beats = iter(range(1000))
    assert measure(path, first, session="fit", alive=lambda: next(beats) < 30)[0] == "orphaned"
    assert read_journal(path).ended() == set()
    second = FakeDevice()
    assert measure(path, second, session="fit")[0] == "complete"
    both, uninterrupted = (profile_of_journal(read_journal(p), "p") for p in (path, whole))
    for role in ("point", "anchor"):
        a, b = both.select("fit", role).columns, uninterrupted.select("fit", role).columns
        for name in ("point_id", "repeat", "decodes", "chunk_tokens", "latency_ms"):
            assert a[name].tolist() == b[name].tolist()
    assert not {p.point for p in PLAN.fit} & set(first.runs) & set(second.runs) - {PLAN.sentinel.point}
    orders = both.select("fit", role=None).columns["order"].tolist()
    assert orders == sorted(orders)


def test_a_pilot_measures_little_and_predicts_the_rest():
    from chunkfit.profiler.devices import open_device
    from chunkfit.profiler.domains import default_domain

    device = open_device("synthetic", "tiny", default_domain("synthetic"), 0, "fit", synthetic_pause_ms=1.0)
    cost = pilot(PLAN, PLAN.fit, device, limit_s=None)
    predicted = cost.session_seconds(PLAN, PLAN.fit)
    iterations = sum(PLAN.warmups + point.repeats for point in PLAN.fit)
    assert predicted > iterations * 1e-3
    assert predicted < 4 * iterations * 1e-3


def test_a_pilot_keeps_its_limit_but_learns_something():
    from chunkfit.profiler.devices import open_device
    from chunkfit.profiler.domains import default_domain

    device = open_device("synthetic", "tiny", default_domain("synthetic"), 0, "fit", synthetic_pause_ms=2.0)
    assert pilot(PLAN, PLAN.fit, device, limit_s=0.0).session_seconds(PLAN, PLAN.test) > 0.1


class ModalDevice(FakeDevice):
    """Runs at one speed for five seconds and at half of it for the next five, whatever the batch."""

    def run(self):
        sample = super().run()
        return Sample(sample.latency_ms * (1 + int(self.now / 5.0) % 2), None)


def test_two_of_a_pair_see_the_same_moments_of_a_machine_that_changes_its_speed(path):
    """Equal batches on such a machine: measured one after the other, the largest of 32 ratios is 2."""
    device = ModalDevice()
    assert measure(path, device, "fit")[0] == "complete"
    profile = profile_of_journal(read_journal(path), "modal")
    for role in ("unequal", "chunks"):
        assert pair_factor(profile, role).factor == pytest.approx(1.0, abs=1e-3)
    lines = {line.point_id: line for line in read_journal(path).lines if isinstance(line, MeasuredLine)}
    pair = next(group for group in side_by_side(PLAN.fit) if len(group) == 2)
    assert [len(lines[point.point_id].repeats) for point in pair] == [PAIR_REPEATS] * 2


def test_of_a_pair_that_was_cut_the_rest_is_measured_by_itself(path):
    pair = next(group for group in side_by_side(PLAN.fit) if len(group) == 2)
    with open_journal(path, PLAN, FINGERPRINT) as journal:
        journal.start("fit")
        journal.measured("fit", pair[0], 0, 0.0, [Sample(1.0, None)] * PAIR_REPEATS, Condition())
    device = FakeDevice()
    measure(path, device, "fit")
    lines = [line for line in read_journal(path).lines if isinstance(line, MeasuredLine)]
    assert Counter(line.point_id for line in lines if line.role != "sentinel") == Counter(p.point_id for p in PLAN.fit)
    assert device.runs[pair[0].point] == PLAN.warmups + PAIR_REPEATS
