"""The session script with a stand-in for the machine's Python, which writes down what it is asked."""

import os
import subprocess
from pathlib import Path

import pytest
import torch

import chunkfit

SCRIPT = Path(chunkfit.__file__).parent / "benchmarks" / "gpu_session.sh"
STAND_IN = """#!/usr/bin/env bash
echo "$*" >>"$CALLS"
case "$*" in
  *get_device_name*) echo nvidia-h200 ;;
  *"-m pytest"*) echo "3 failed, 5 passed in 1.00s"; exit 1 ;;
  *attention_vs_sdpa*) exit 3 ;;
  *gpu_summary*) echo summary ;;
esac
"""


@pytest.fixture
def session(tmp_path):
    """Runs the script; returns (exit code, what the stand-in was asked, stderr)."""
    python = tmp_path / "python"
    python.write_text(STAND_IN)
    python.chmod(0o755)

    def run(*stages, **environment):
        calls = tmp_path / "calls"
        calls.write_text("")
        given = {"PYTHON": str(python), "CALLS": str(calls), "OUT": str(tmp_path / "out"), **environment}
        done = subprocess.run(
            ["bash", SCRIPT, *stages], env=os.environ | given, capture_output=True, text=True, check=False
        )
        return done.returncode, calls.read_text().splitlines(), done.stderr

    return run


def test_a_part_that_fails_does_not_end_the_stage(session, tmp_path):
    (tmp_path / "out").mkdir()
    stale = tmp_path / "out" / "microbench.json"
    stale.write_text("of an earlier session")
    code, calls, said = session("check", "profile")
    assert code == 1
    parts = ("-m pytest", " microbench ", "attention_vs_sdpa.py", "iteration_floors.py", " run ", "gpu_summary.py")
    places = [next(place for place, call in enumerate(calls) if part in call) for part in parts]
    assert places == sorted(places)
    assert "check, tests: exit code 1" in said
    assert "check, attention: exit code 3" in said
    assert not stale.exists()
    assert (tmp_path / "out" / "check-tests.txt").read_text() == "3 failed, 5 passed in 1.00s\n"


def test_live_needs_the_table_of_the_profile_stage(session, tmp_path):
    code, calls, said = session("live")
    assert code == 1
    assert "run stage profile first" in said
    assert not [call for call in calls if " live " in call]
    (tmp_path / "out").mkdir(exist_ok=True)
    (tmp_path / "out" / "table.json").write_text("{}")
    code, calls, _ = session("live")
    asked = [call for call in calls if " live " in call]
    assert [call.split("--tpot ")[1].split()[0] for call in asked] == ["10ms", "15ms", "25ms"]
    assert code == 0


def test_the_limits_of_a_stage_s_parts_are_under_nine_minutes():
    limits = {}
    for line in SCRIPT.read_text().splitlines():
        if line.startswith("stage_"):
            stage = line.partition("(")[0]
        elif line.strip().startswith('part "'):
            limits.setdefault(stage, []).append(int(line.split('" ')[1].split()[0]))
    limits["stage_live"] *= 3  # targets
    assert {stage: len(parts) for stage, parts in limits.items()} == {
        "stage_check": 4,
        "stage_profile": 2,
        "stage_live": 3,
    }
    assert all(sum(parts) < 9 * 60 for parts in limits.values())


@pytest.mark.parametrize(("stages", "message"), [((), "One command"), (("check", "fly"), "stage 'fly' is unknown")])
def test_wrong_usage_touches_nothing(session, stages, message):
    code, calls, said = session(*stages)
    assert (code, calls, message in said) == (2, [], True)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_nothing_is_installed_or_written(session, tmp_path):
    import sys

    code, calls, said = session("check", PYTHON=sys.executable)
    assert (code, calls) == (3, [])
    assert said.strip() == "no CUDA device that torch can use: run chunkfit doctor"
    assert not (tmp_path / "out").exists()
