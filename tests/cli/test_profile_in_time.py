"""`profile` ends in time with a profile that can be certified, and says before measuring where that cannot be."""

import time

import pytest

from chunkfit.profiler.profile import Profile


def test_a_plan_far_over_its_budget_ends_in_time_with_a_certificate(tmp_path, command):
    begin = time.monotonic()
    done = command("profile", tmp_path / "p.parquet", "--device", "synthetic", "--points", 43_888, "--minutes", 0.4)
    assert done.code == 0
    assert time.monotonic() - begin < 24 + 40  # a busy machine starts processes slowly; it took 150 s before
    assert "cut to 12,000 a session" in done.err
    sessions = Profile.load(tmp_path / "p.parquet").meta.sessions
    assert sessions["calibrate"].points >= 299
    assert min(sessions["fit"].points, sessions["test"].points) > 30


@pytest.mark.parametrize("name", ["run", "profile"])
def test_too_few_points_for_a_certificate_are_said_before_anything_is_measured(name, tmp_path, command):
    out = ("--out", tmp_path / "r") if name == "run" else (tmp_path / "p.parquet",)
    done = command(name, *out, "--device", "synthetic", "--points", 50, "--minutes", 0.2)
    said = "50 calibration points cannot certify 0.99: 299 are needed"
    if name == "run":
        assert done.code == 2
        assert f"refused before measuring: {said}" in done.err
        assert not (tmp_path / "r" / "profile.parquet").exists()
    else:
        assert done.code == 0
        assert said in " ".join(done.err.split())
        assert "50 calibration points cannot certify" in " ".join(done.out.split())


def test_a_budget_without_room_for_one_point_writes_nothing(tmp_path, command):
    done = command("profile", tmp_path / "p.parquet", "--device", "synthetic", "--points", 300, "--minutes", 0.001)
    assert done.code == 2
    assert "the time was up before the first fit point was measured; nothing was written" in done.err
    assert not (tmp_path / "p.parquet").exists()
