"""`chunkfit profile` on the CPU, interrupted and killed for real, then resumed: nothing is lost or repeated."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

from chunkfit import Profile

ARGUMENTS = ("profile", "p.parquet", "--device", "cpu", "--points", "24", "--minutes", "5")


def start(folder, *more):
    command = [sys.executable, "-c", "from chunkfit.cli.main import main; main()", *ARGUMENTS, *more]
    return subprocess.Popen(
        command,
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A test run in the background (`make test &`) hands down an ignored SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def lines(folder):
    journal = folder / "p.parquet.journal.jsonl"
    text = journal.read_text() if journal.exists() else ""
    return [json.loads(line) for line in text.splitlines() if line.endswith("}")]


def points(folder):
    """(session, point) -> latencies of every measured point in the journal."""
    return {
        (line["session"], line["point_id"]): [ms for ms, _ in line["repeats"]]
        for line in lines(folder)
        if "repeats" in line and line["role"] != "sentinel"
    }


def wait_for(folder, process, more):
    """Until `more` further points are in the journal."""
    goal, end = len(points(folder)) + more, time.monotonic() + 60
    while len(points(folder)) < goal:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.02)


def test_interrupted_and_killed_then_resumed(tmp_path):
    process = start(tmp_path)
    wait_for(tmp_path, process, 15)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert "--resume" in said
    assert "Traceback" not in said
    after_interrupt = points(tmp_path)
    assert len(after_interrupt) >= 15

    process = start(tmp_path)  # without --resume nothing may be overwritten
    _, said = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "go on with --resume" in said
    assert points(tmp_path) == after_interrupt

    process = start(tmp_path, "--resume")
    wait_for(tmp_path, process, 45)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    after_kill = points(tmp_path)
    assert after_kill.items() >= after_interrupt.items()
    assert not (tmp_path / "p.parquet").exists()

    process = start(tmp_path, "--resume")
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert [path.name for path in tmp_path.iterdir()] == ["p.parquet"]
    columns = Profile.load(tmp_path / "p.parquet").columns
    rows = columns["role"] != "sentinel"
    found: dict[tuple[str, int], list[float]] = {}
    for session, point, ms in zip(
        columns["session"][rows].tolist(),
        columns["point_id"][rows].tolist(),
        columns["latency_ms"][rows].tolist(),
        strict=True,
    ):
        found.setdefault((session, point), []).append(ms)
    assert found.items() >= after_kill.items(), "a point measured before the kill is there with its own values"
    assert Counter(session for session, _ in found) == {"fit": 24 + 24 + 4 * 32, "calibrate": 24, "test": 24}
    assert all(len(values) in ((3, 5) if session == "fit" else (1,)) for (session, _), values in found.items())


def test_a_place_that_cannot_hold_the_profile(tmp_path, command):
    (tmp_path / "file").write_text("in the way")
    done = command("profile", tmp_path / "file" / "p.parquet", "--device", "synthetic", "--points", 20)
    assert done.code == 3
    assert "cannot be made" in done.err
    assert (tmp_path / "file").read_text() == "in the way"
