"""Rounds in a session: on disk before they are measured, resumed exactly, inside the time."""

import hashlib
import json
import os
import time

import numpy as np
import pytest

from chunkfit.files.errors import ProfileFormatError
from chunkfit.profiler.choose import next_choice
from chunkfit.profiler.cost import CostModel, usual_work
from chunkfit.profiler.devices import truth
from chunkfit.profiler.devices.synthetic import FINGERPRINT
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.journal import Chosen, MeasuredLine, read_journal
from chunkfit.profiler.journal_writer import open_journal
from chunkfit.profiler.messages import read_choice
from chunkfit.profiler.plan import PlanOptions, SweepPlan, draw_plan
from chunkfit.profiler.profile import Profile, concat
from chunkfit.profiler.rounds import CHOICE_S
from chunkfit.profiler.session_run import SessionRun
from chunkfit.profiler.sweep import profile_of_journal
from chunkfit.profiler.timing import side_by_side

from .test_session import FakeDevice


def plan_in_rounds(seed, fit_points, held_points):
    return draw_plan(
        SYNTHETIC_DOMAIN,
        (129,),
        seed,
        PlanOptions(
            fit_points=fit_points,
            calibrate_points=held_points,
            test_points=held_points,
            anchors=6,
            pairs=2,
            warmups=0,
            warmup_ms=0.0,
            tolerance=0.0,
        ),
    )


PLAN = plan_in_rounds(3, fit_points=90, held_points=30)
START = len(PLAN.fit)


def off(points, latency_ms, queries):
    return truth.base_ms(queries) * (1 + 0.01 * queries[:, 0])


class Chooser:
    """Chooses in no time what `next_choice` gives, from a journal; fails to after `answers`."""

    def __init__(self, path, device=None, seconds=0.0, answers=99):
        self.path, self.device, self.seconds, self.answers = path, device, seconds, answers
        self.asked = []

    def __call__(self, seconds):
        self.asked.append(seconds)
        if len(self.asked) > self.answers:
            return None
        if self.device:
            self.device.now += self.seconds
        contents = read_journal(self.path)
        lines = [x for x in contents.lines if isinstance(x, MeasuredLine) and x.role == "point"]
        by_id = {point.point_id: point.point for point in contents.fit_points(PLAN)}
        points = np.asarray([by_id[line.point_id] for line in lines])
        return next_choice(PLAN, contents.choices(), points, truth.base_ms(points), off)


def measure(path, device, ask, deadline=None, **options):
    events = []
    with open_journal(path, PLAN, FINGERPRINT) as journal:
        run = SessionRun(PLAN, "fit", device, journal, deadline, events.append, clock=device.clock, ask=ask, **options)
        outcome = run.run()
    return outcome, events


@pytest.fixture
def path(tmp_path):
    return tmp_path / "p.journal.jsonl"


def test_rounds_follow_the_start_until_the_points_are_spent(path):
    chooser = Chooser(path)
    outcome, events = measure(path, FakeDevice(), chooser)
    assert outcome == "complete"
    contents = read_journal(path)
    assert [len(choice.points) for choice in contents.choices()] == [20, 10, 0]
    assert contents.choices()[-1].stopped == "points"
    assert len(contents.done("fit")) == PLAN.planned("fit") == START + 30
    assert (events[-1].done, events[-1].total) == (START + 30, START + 30)
    orders = [line.order for line in contents.lines if isinstance(line, MeasuredLine)]
    assert orders == list(range(len(orders)))
    assert contents.lines[-2].kind == "chosen"
    sentinels = [line.order for line in contents.lines if isinstance(line, MeasuredLine) and line.role == "sentinel"]
    assert max(np.diff(sentinels)) == 21
    assert min(np.diff(sentinels)) > 1
    result = profile_of_journal(contents, "p")
    assert (result.meta.sessions["fit"].points, result.meta.sessions["fit"].planned) == (START + 30, START + 30)
    rounds = [(one.measured, one.chosen, one.stopped) for one in result.meta.rounds]
    assert rounds == [(60, 20, None), (80, 10, None), (90, 0, "points")]
    assert result.meta.tolerance == 0.0
    assert len(np.unique(result.select("fit").columns["point_id"])) == 90
    other = Profile(result.meta, {**result.columns, "latency_ms": 1.01 * result.columns["latency_ms"]}, "another")
    assert len(concat([result, other]).meta.rounds) == 6


def test_the_choice_is_on_disk_before_its_points(path):
    measure(path, FakeDevice(), Chooser(path))
    kinds = {}
    for place, line in enumerate(read_journal(path).lines):
        if isinstance(line, Chosen):
            kinds |= {point.point_id: place for point in line.choice.points}
        elif isinstance(line, MeasuredLine) and line.point_id in kinds:
            assert kinds[line.point_id] < place
    assert len(kinds) == 30


@pytest.mark.parametrize("further", [-5, 0, 1, 17, 30])
def test_a_killed_session_goes_on_with_the_round_it_was_in(path, further):
    whole = path.with_name("whole.jsonl")
    measure(whole, FakeDevice(), Chooser(whole))
    sentinels = (START + further) // 20
    beats = iter([True] * (len(side_by_side(PLAN.fit)) + further + sentinels) + [False] * 9)
    chooser = Chooser(path)
    assert measure(path, FakeDevice(), chooser, alive=lambda: next(beats))[0] == "orphaned"
    assert read_journal(path).ended() == set()
    asked = len(chooser.asked)
    again = Chooser(path)
    assert measure(path, FakeDevice(), again)[0] == "complete"
    assert asked + len(again.asked) <= 4
    one, other = (read_journal(p) for p in (path, whole))
    assert [choice.points for choice in one.choices()] == [choice.points for choice in other.choices()]
    assert one.done("fit") == other.done("fit")


def test_no_answer_ends_the_session_as_its_time_does(path):
    outcome, events = measure(path, FakeDevice(), Chooser(path, answers=0))
    assert outcome == "deadline"
    assert f"time was up after {START} of {START + 30} points" in events[-1].message
    assert read_journal(path).ended() == {"fit"}
    assert profile_of_journal(read_journal(path), "p").meta.rounds == ()


def test_nobody_to_answer_leaves_the_session_open(path):
    def gone(seconds):
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        measure(path, FakeDevice(), gone)
    assert len(read_journal(path).done("fit")) == START
    assert read_journal(path).ended() == set()


def test_choosing_is_inside_the_time(path):
    device = FakeDevice()
    start = FakeDevice()
    measure(path.with_name("start.jsonl"), start, Chooser(path, answers=0))
    chooser = Chooser(path, device, seconds=5.0)
    deadline = start.now + 10.0
    outcome, _ = measure(path, device, chooser, deadline=deadline)
    assert outcome == "deadline"
    assert chooser.asked == [pytest.approx(10.0)]
    chosen = read_journal(path).choices()[0].points
    done = read_journal(path).done("fit")
    assert 0 < sum(point.point_id in done for point in chosen) < len(chosen)
    assert device.now <= deadline + 3 * 0.6
    late = FakeDevice()
    nobody = Chooser(path.with_name("late.jsonl"))
    measure(nobody.path, late, nobody, deadline=start.now + CHOICE_S / 2)
    assert nobody.asked == [], "less time than choosing takes is not spent on it"


def test_the_cost_counts_points_that_are_not_chosen_yet():
    cost = CostModel((0.1, 0.0, 0.0, 0.0, 0.0))
    each = usual_work(PLAN)
    assert cost.seconds(each)[0] == pytest.approx(0.1 * (60 + 4) / 60)
    assert cost.rounds_seconds(each, 60, 30) == pytest.approx(30 * 0.1 * 64 / 60 + 3 * CHOICE_S)
    assert cost.rounds_seconds(each, 90, 0) == 0.0


def test_a_choice_is_read_in_time_or_not_at_all():
    choice = next_choice(PLAN, [], np.asarray([p.point for p in PLAN.fit]), np.full(START, 9.0), off)
    reader, writer = os.pipe()
    begin = time.monotonic()
    assert read_choice(reader, 0.05) is None
    os.write(writer, choice.model_dump_json().encode()[:100])
    assert read_choice(reader, 0.05) is None
    assert time.monotonic() - begin >= 0.1
    os.write(writer, choice.model_dump_json().encode() + b"\n")
    assert read_choice(reader, None) == choice
    os.close(writer)
    with pytest.raises(BrokenPipeError):
        read_choice(reader, None)
    os.close(reader)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda choice: choice | {"round": 2}, r"round 2 .*expected round 1"),
        (
            lambda choice: choice | {"points": choice["points"] + choice["points"][:1]},
            "21 chosen points, 20 of them new",
        ),
        (lambda choice: choice | {"points": [PLAN.fit[0].model_dump(mode="json")]}, "1 chosen points, 0 of them new"),
    ],
)
def test_an_edited_round_is_refused(path, edit, message):
    measure(path, FakeDevice(), Chooser(path))
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    place = next(i for i, line in enumerate(lines) if line["kind"] == "chosen")
    lines[place]["choice"] = edit(lines[place]["choice"])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(ProfileFormatError, match=rf"line {place + 1}: .*{message}"):
        read_journal(path)


def test_a_plan_from_before_rounds_reads_and_keeps_its_sha():
    plain = draw_plan(SYNTHETIC_DOMAIN, (129,), 3, PlanOptions(fit_points=40, calibrate_points=30, test_points=30))
    old = plain.model_dump(mode="json")
    assert (old.pop("rounds"), old.pop("traffic")) == (None, None)
    assert SweepPlan.model_validate(old) == plain
    before_rounds = json.dumps(old, sort_keys=True, separators=(",", ":")).encode()
    assert plain.sha256() == hashlib.sha256(before_rounds).hexdigest()


def test_the_held_out_sessions_do_not_depend_on_rounds():
    plain = draw_plan(SYNTHETIC_DOMAIN, (129,), 3, PlanOptions(fit_points=90, calibrate_points=30, test_points=30))
    assert [p.point for p in PLAN.calibrate] == [p.point for p in plain.calibrate]
    assert [p.point for p in PLAN.test] == [p.point for p in plain.test]
    small = draw_plan(
        SYNTHETIC_DOMAIN, (), 3, PlanOptions(fit_points=50, calibrate_points=9, test_points=9, tolerance=0.01)
    )
    assert small.rounds is None, "too few to choose by"
    assert small.planned("fit") == len(small.fit)


def test_a_session_is_complete_at_its_tolerance(path):
    def enough(seconds):
        choice = Chooser(path)(seconds)
        return choice.model_copy(update={"points": (), "stopped": "tolerance"})

    outcome, events = measure(path, FakeDevice(), enough)
    assert outcome == "complete"
    assert (events[-1].done, events[-1].total, events[-1].message) == (START, START, "")
    meta = profile_of_journal(read_journal(path), "p").meta
    assert (meta.sessions["fit"].points, meta.sessions["fit"].planned) == (START, START + 30)
    assert [(one.chosen, one.stopped) for one in meta.rounds] == [(0, "tolerance")]
