"""The benchmark of the fit's scale: its logs, and its rows on a small one."""

import json
import subprocess
import sys

import fit_scale
import numpy as np
import pytest


def test_a_log_is_cut_as_ingest_cuts_it():
    profile = fit_scale.log_of(2000)
    sessions, counts = np.unique(profile.columns["session"], return_counts=True)
    assert dict(zip(sessions.tolist(), counts.tolist(), strict=True)) == {"fit": 1200, "calibrate": 400, "test": 400}
    assert len(np.unique(profile.points(), axis=0)) > 1800
    assert profile.meta.fingerprint.synthetic


def test_repeats_of_few_batches_are_cut_by_points():
    profile = fit_scale.log_of(2000, repeated=50)
    points, session = profile.points(), profile.columns["session"]
    assert len(np.unique(points, axis=0)) <= 50
    fit, test = (set(map(tuple, points[session == name].tolist())) for name in ("fit", "test"))
    assert not fit & test
    assert len(np.unique(profile.columns["latency_ms"])) == 2000, "no iteration twice"


def test_a_fit_is_measured_and_judged(tmp_path):
    fit_scale.log_of(1500).save(tmp_path / "log.parquet")
    found = fit_scale.measured(tmp_path / "log.parquet", "linear")
    assert found["fitter"] == "linear"
    assert 0 < found["seconds"] < 300
    assert 50e6 < found["peak"] < 10e9
    assert found["coverage"] > 95
    assert 0.3 < found["median"] < found["p99"]
    assert (tmp_path / "log.json").exists()


@pytest.mark.slow
def test_it_runs_here(tmp_path):
    command = [sys.executable, fit_scale.__file__, "--quick", "--out", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    rows = json.loads((tmp_path / "fit_scale.json").read_text())["rows"]
    assert len(rows) == len(fit_scale.QUICK) * len(fit_scale.FITTERS) * 5
    assert all(row["value"] > 0 for row in rows)
