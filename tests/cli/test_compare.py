"""`chunkfit compare` as a nightly job runs it: exit codes, figures, refusals."""

import numpy as np
import pytest

from chunkfit import Profile


@pytest.fixture(scope="module")
def slower(made, tmp_path_factory):
    """The same profile, 1.5 times as slow."""
    profile = Profile.load(made / "profile.parquet")
    path = tmp_path_factory.mktemp("slower") / "slower.parquet"
    Profile(profile.meta, {**profile.columns, "latency_ms": profile.columns["latency_ms"] * 1.5}).save(path)
    return path


def test_no_drift_ends_with_0(made, command):
    done = command("compare", made / "table.json", made / "profile.parquet")
    assert (done.code, "no drift beyond 5%" in done.out) == (0, True), done.err
    assert done.out.startswith("fingerprint"), "first of all"
    assert "above the bound:" in done.out


def test_drift_ends_with_1_and_says_where(made, slower, command):
    done = command("compare", made / "table.json", slower, "--tolerance", "30%", "--json")
    assert done.code == 1
    assert (done.json["drift"], done.json["tolerance"]) == (True, 0.3)
    assert [scene["scene"] for scene in done.json["scenes"]] == ["decode", "prefill", "mixed"]
    assert all(np.isclose(scene["median"], 1.5, rtol=0.02) for scene in done.json["scenes"])
    assert done.json["coverage"]["high"] < done.json["promised"]
    assert done.json["reasons"][0].startswith("decode: a tenth of")


@pytest.mark.parametrize(
    ("right", "tolerance", "message"),
    [
        ("absent.json", "5%", "cannot be read"),
        ("table.json", "105%", "expected a share from 0% to 100%, such as 5% or 0.05"),
    ],
)
def test_wrong_usage_ends_with_2(made, command, right, tolerance, message):
    done = command("compare", made / "table.json", made / right, "--tolerance", tolerance)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
