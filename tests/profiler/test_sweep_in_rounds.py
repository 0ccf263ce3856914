"""A sweep whose fit session chooses in rounds: killed and resumed, inside the budget of all sessions."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from chunkfit.files.errors import UsageError
from chunkfit.profiler.journal import MeasuredLine, read_journal
from chunkfit.profiler.messages import ProfileRequest
from chunkfit.profiler.profile import Profile
from chunkfit.profiler.sweep import journalled_plan, profile

from .test_rounds import PLAN, START, off, plan_in_rounds

# Runs a request file in a process that can be killed, with a predictor that is off by more the more decodes.
RUNNER = (
    "import sys; from pathlib import Path\n"
    "from chunkfit.profiler.devices.truth import base_ms\n"
    "from chunkfit.profiler.messages import ProfileRequest; from chunkfit.profiler.sweep import profile\n"
    "def off(points, latency_ms, queries): return base_ms(queries) * (1 + 0.01 * queries[:, 0])\n"
    "profile(ProfileRequest.model_validate_json(Path(sys.argv[1]).read_bytes()), resume=True, predictor=off)\n"
)


@pytest.fixture
def request_(tmp_path):
    return ProfileRequest(device="synthetic", model="tiny", plan=PLAN, out=tmp_path / "p.parquet")


def test_a_plan_with_rounds_needs_a_predictor(request_):
    with pytest.raises(UsageError, match="there is no predictor"):
        profile(request_)
    assert not request_.journal.exists()


def test_a_sweep_killed_in_a_round_goes_on_in_it(request_, tmp_path):
    slow = request_.model_copy(update={"synthetic_pause_ms": 15.0})
    file = tmp_path / "request.json"
    file.write_text(slow.model_dump_json())
    process = subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(file)], start_new_session=True, stderr=subprocess.PIPE
    )
    until = time.monotonic() + 60
    while not slow.journal.exists() or len(read_journal(slow.journal).done("fit")) < START + 4:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=20)
    before = read_journal(slow.journal)
    assert START + 4 <= len(before.done("fit")) < START + 20
    assert journalled_plan(slow.out) == PLAN
    events = []
    profile(request_, resume=True, predictor=off, on_event=events.append)
    assert events[0].kind == "cost"
    rounds = [event.message.split(": ")[-1] for event in events if event.kind == "round"]
    assert rounds == ["10 more", "all points are spent"], "the first round is not chosen again"
    resumed = Profile.load(request_.out)
    assert [one.chosen for one in resumed.meta.rounds] == [20, 10, 0]
    columns = resumed.select("fit").columns
    assert len(columns["point_id"]) == 3 * 90
    assert len(np.unique(np.column_stack([columns["point_id"], columns["repeat"]]), axis=0)) == 3 * 90
    kept = {latency for line in before.lines if isinstance(line, MeasuredLine) for latency, _ in line.repeats}
    assert kept <= set(resumed.columns["latency_ms"].tolist())
    first = {point.point_id: point.point for point in before.choices()[0].points}
    for point_id, point in zip(columns["point_id"].tolist(), resumed.select("fit").points().tolist(), strict=True):
        assert tuple(point) == first.get(point_id, tuple(point))


def test_the_sessions_together_keep_the_budget_with_rounds(request_):
    plan = plan_in_rounds(5, fit_points=700, held_points=60)
    asked = request_.model_copy(update={"plan": plan, "synthetic_pause_ms": 5.0, "budget_s": 8.0})
    result = profile(asked, predictor=off)
    assert sum(meta.seconds for meta in result.meta.sessions.values()) < 8.0
    assert 0 < result.meta.sessions["fit"].points < plan.planned("fit")
