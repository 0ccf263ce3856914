"""Whole sweeps in real processes: complete, refused, killed and resumed."""

import os
import signal
import subprocess
import sys
import time

import pytest

from chunkfit.engine.config import PRESETS
from chunkfit.files.errors import DeviceUnavailableError, UsageError
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN, cpu_domain
from chunkfit.profiler.journal import MeasuredLine, read_journal
from chunkfit.profiler.messages import ProfileRequest
from chunkfit.profiler.plan import SESSIONS, PlanOptions, draw_plan
from chunkfit.profiler.profile import Profile
from chunkfit.profiler.sweep import journalled_plan, profile

PLAN = draw_plan(
    SYNTHETIC_DOMAIN,
    (129,),
    3,
    PlanOptions(fit_points=40, calibrate_points=30, test_points=30, anchors=6, warmups=0, warmup_ms=0.0),
)
# Runs a request file as the command line would, in a process that can be killed.
RUNNER = (
    "import sys; from pathlib import Path\n"
    "from chunkfit.profiler.messages import ProfileRequest; from chunkfit.profiler.sweep import profile\n"
    "profile(ProfileRequest.model_validate_json(Path(sys.argv[1]).read_bytes()), resume='resume' in sys.argv)\n"
)


@pytest.fixture
def request_(tmp_path):
    return ProfileRequest(device="synthetic", model="tiny", plan=PLAN, out=tmp_path / "p.parquet")


def planned(plan):
    return {
        (s, point.role, point.point_id, r) for s in SESSIONS for point in plan.points(s) for r in range(point.repeats)
    }


def measured(result):
    columns = result.select(role=None).columns
    names = ("session", "role", "point_id", "repeat")
    rows = list(zip(*(columns[name].tolist() for name in names), strict=True))
    return [row for row in rows if row[1] != "sentinel"]


def journal_points(path):
    """Line texts of the points measured so far: what must never change again."""
    if not path.exists() or not read_journal(path).header:
        return []
    return [line.model_dump_json() for line in read_journal(path).lines if isinstance(line, MeasuredLine)]


def start(request, *flags, **options):
    file = request.out.with_name("request.json")
    file.write_text(request.model_dump_json())
    command = [sys.executable, "-c", RUNNER, str(file), *flags]
    return subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True, **options)


def wait_for_points(path, count, limit_s=20):
    until = time.monotonic() + limit_s
    while len(journal_points(path)) < count:
        assert time.monotonic() < until, "the sweep measures nothing"
        time.sleep(0.02)


def test_a_sweep_measures_each_planned_point_and_says_its_cost_first(request_):
    events = []
    result = profile(request_, on_event=events.append)
    rows = measured(result)
    assert len(rows) == len(set(rows))
    assert set(rows) == planned(PLAN)
    assert events[0].kind == "cost"
    assert set(events[0].estimate) == set(SESSIONS)
    assert [event.session for event in events if event.kind == "end"] == list(SESSIONS)
    assert not request_.journal.exists()
    again = Profile.load(request_.out)
    assert again.meta == result.meta
    assert again.meta.plan_sha256 == PLAN.sha256()
    assert all(meta.seconds > 0 and meta.started_at for meta in again.meta.sessions.values())
    with pytest.raises(UsageError, match="exists already and is complete"):
        profile(request_, resume=True)
    assert len(profile(request_.model_copy(update={"overwrite": True}))) == len(result)


def test_kills_at_any_moment_lose_and_repeat_nothing(request_):
    """The whole group, the parent alone and the measuring process alone, one after the other."""
    slow = request_.model_copy(update={"synthetic_pause_ms": 15.0})
    journal = slow.journal
    before = []
    for round_, victim in enumerate(("group", "parent", "child")):
        process = start(slow, "resume")
        wait_for_points(journal, len(before) + 12)
        if victim == "group":
            os.killpg(process.pid, signal.SIGKILL)
        elif victim == "parent":
            process.kill()
        else:
            pid = next(line.pid for line in reversed(read_journal(journal).lines) if line.kind == "start")
            os.kill(pid, signal.SIGKILL)
        _, said = process.communicate(timeout=20)
        assert process.returncode != 0
        if victim == "child":
            assert "was killed by SIGKILL" in said
            assert "--resume" in said
        time.sleep(0.3)  # an orphaned process finishes the point it is at
        after = journal_points(journal)
        assert after[: len(before)] == before
        assert len(after) >= len(before) + 12, round_
        before = after
    with pytest.raises(UsageError, match=r"an unfinished sweep with .* measured points is there"):
        profile(slow)
    assert journalled_plan(slow.out) == PLAN
    result = profile(request_, resume=True)
    rows = measured(result)
    assert len(rows) == len(set(rows))
    assert set(rows) == planned(PLAN)
    assert not journal.exists()
    kept = {(line, row) for line in before for row in result.columns["latency_ms"].tolist() if f"[{row!r}," in line}
    assert len(kept) >= len(before)


def test_an_interrupt_names_the_journal_and_keeps_it(request_):
    slow = request_.model_copy(update={"synthetic_pause_ms": 15.0})
    interrupted = []

    def interrupt(event):
        if event.kind == "progress" and event.done >= 5:
            interrupted.append(time.monotonic())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"p\.parquet\.journal\.jsonl"):
        profile(slow, on_event=interrupt)
    assert time.monotonic() - interrupted[-1] < 5  # the measuring process ended when it was told to
    assert len(read_journal(slow.journal).done("fit")) >= 5
    assert not slow.out.exists()


def test_another_plan_is_not_resumed(request_):
    slow = request_.model_copy(update={"synthetic_pause_ms": 15.0})
    with pytest.raises(KeyboardInterrupt):
        profile(slow, on_event=lambda event: (_ for _ in ()).throw(KeyboardInterrupt))
    if not journal_points(slow.journal):  # interrupted before the first point: the header is there
        assert read_journal(slow.journal).header is not None
    other = draw_plan(SYNTHETIC_DOMAIN, (129,), 4, PlanOptions(fit_points=40, calibrate_points=30, test_points=30))
    with pytest.raises(UsageError, match=r"another plan.*seed 3; asked .*seed 4"):
        profile(request_.model_copy(update={"plan": other}), resume=True)


def test_a_budget_is_kept_and_every_session_gets_some(request_):
    plan = draw_plan(
        SYNTHETIC_DOMAIN,
        (129,),
        5,
        PlanOptions(fit_points=600, calibrate_points=450, test_points=450, warmups=0, warmup_ms=0.0),
    )
    slow = request_.model_copy(update={"plan": plan, "synthetic_pause_ms": 5.0, "budget_s": 8.0})
    begin = time.monotonic()
    told = []
    result = profile(slow, on_event=lambda event: told.append(time.monotonic() - begin))
    # A session's own deadline is tested on a clock of its own; here a busy machine may start a process and write the
    # file later than foreseen.
    assert told[-1] < 8.0 + 1.5
    assert time.monotonic() - begin < 8.0 + 5.0
    assert all(10 < meta.points < meta.planned for meta in result.meta.sessions.values())


def test_errors_of_the_measuring_process_arrive_as_themselves(request_):
    with pytest.raises(UsageError, match="no-such-model"):
        profile(request_.model_copy(update={"device": "cpu", "model": "no-such-model"}))
    import torch

    if not torch.cuda.is_available():
        with pytest.raises(DeviceUnavailableError, match="cuda") as caught:
            profile(request_.model_copy(update={"device": "cuda"}))
        assert caught.value.exit_code == 3
    assert not request_.out.exists()


def test_a_real_sweep_of_the_engine_on_the_cpu(request_):
    plan = draw_plan(
        cpu_domain(PRESETS["tiny"]),
        (),
        0,
        PlanOptions(fit_points=12, calibrate_points=6, test_points=6, anchors=3, pairs=3),
    )
    result = profile(request_.model_copy(update={"device": "cpu", "plan": plan}))
    assert set(measured(result)) == planned(plan)
    assert {"unequal", "chunks"} <= set(result.columns["role"][result.columns["layout"] != ""].tolist())
    assert set(result.columns["throttle"].tolist()) == {"unknown"}
    assert not result.columns["flagged"].any()
    fingerprint = result.meta.fingerprint
    assert (fingerprint.device_kind, fingerprint.engine) == ("cpu", "chunkfit-engine")
    assert fingerprint.cpu_threads == max(1, len(os.sched_getaffinity(0)) - 1)
    work = result.points() @ [1, 0, 1, 0]
    latency = result.columns["latency_ms"]
    assert latency[work >= 256].min() > latency[work <= 8].min()
