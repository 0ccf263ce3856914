"""What fit makes of imported logs: single iterations certify, means never, and too few points say how far they go."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.engine_log import COLUMNS, write_engine_log
from support.fitting import fit

from chunkfit import CostTable
from chunkfit.files.errors import CertificationError
from chunkfit.fitters.margin import best_coverage
from chunkfit.fitters.rows import held_out, rows_of
from chunkfit.fitters.support import calibration_rows, measured_support
from chunkfit.fitters.validate import validate_with_profile
from chunkfit.profiler.importers.ingest import ingest
from chunkfit.profiler.importers.samples import ReadOptions

FOLDER = os.environ.get("CHUNKFIT_PUBLIC_DATA")
MEASURED = Path(FOLDER or ".") / "measurements"
public = pytest.mark.skipif(FOLDER is None, reason="CHUNKFIT_PUBLIC_DATA is not set: no public logs here")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return write_engine_log(tmp_path_factory.mktemp("log") / "log.csv")


@pytest.mark.parametrize("split", ["time", "points"])
def test_a_log_of_iterations_becomes_a_table_that_validates(log, split, tmp_path):
    profile = ingest("table", log, COLUMNS, aggregation="iteration", split=split, shares=(50, 35, 15)).profile
    sha = profile.save(tmp_path / "p.parquet")
    document = fit(profile, profile_sha256=sha).document
    CostTable(document).save(tmp_path / "t.json")
    assert validate_with_profile(tmp_path / "t.json", tmp_path / "p.parquet")[1] == []
    assert document.certificate.coverage == 0.99
    assert document.certificate.points >= 299
    assert document.test.errors["all"].median_percent < 2
    assert document.fingerprint.device_name is None
    law = document.certificate.law
    assert ("as they came" in law, "one row for each (n, k, c, u)" in law) == (split == "time", split == "points")

    other = {"time": "points", "points": "time"}[split]
    imported = profile.meta.imported.model_copy(update={"split": other})
    changed = replace(profile, meta=profile.meta.model_copy(update={"imported": imported}))
    changed.save(tmp_path / "p.parquet")
    findings = validate_with_profile(tmp_path / "t.json", tmp_path / "p.parquet")[1]
    assert [finding.where for finding in findings] == ["$.profile_sha256", "$.certificate.law"]


def test_a_table_of_replicates_certifies_its_own_batches(tmp_path):
    """330 batches, four times each: too few to leave some out, enough to ask each once more."""
    log, rng = write_engine_log(tmp_path / "log.csv"), np.random.default_rng(1)
    head, *lines = log.read_text().splitlines()
    known = dict(line.rsplit(",", 1) for line in lines)  # one time for each batch
    again = list(known.items())[:330] * 4
    log.write_text("\n".join([head, *(f"{batch},{float(ms) * rng.lognormal(0, 0.01)}" for batch, ms in again), ""]))
    profile = ingest("table", log, COLUMNS, aggregation="iteration", split="replicates").profile
    assert [profile.meta.sessions[s].rows for s in ("fit", "calibrate", "test")] == [660, 330, 330]
    sha = profile.save(tmp_path / "p.parquet")
    document = fit(profile, profile_sha256=sha).document
    assert document.certificate.points == 330
    assert document.factors.session_drift == pytest.approx(1, abs=0.003)
    assert "over 330 shared points" in next(p.detail for p in document.margin if p.name == "session_drift")
    assert "one later row for each (n, k, c, u); the same batches were fitted" in document.certificate.law
    CostTable(document).save(tmp_path / "t.json")
    assert validate_with_profile(tmp_path / "t.json", tmp_path / "p.parquet")[1] == []


def test_rows_that_are_not_known_to_be_iterations_certify_nothing(log):
    with pytest.raises(CertificationError, match=r"aggregation is 'unknown'.*or ingest a log of them"):
        fit(ingest("table", log, COLUMNS).profile)


@public
def test_live_steps_certify_99_percent():
    profile = ingest(
        "rucnyz-live",
        MEASURED / "rucnyz-vllm" / "h200_qwen3_8b_live_first3000.json",
        ReadOptions({"k": "600", "u": "0"}),
    ).profile
    document = fit(profile).document
    assert (document.certificate.coverage, document.certificate.points) == (0.99, 599)
    assert document.test.coverage.high >= 0.99
    assert document.test.errors["all"].mape_percent < 10


@public
@pytest.mark.parametrize("column", ["prompt_time", "token_time"])
def test_few_replicated_points_say_what_they_can_certify(column):
    prompt = column == "prompt_time"
    mapping = {
        "n": "0" if prompt else "batch_size",
        "k": "prompt_size",
        "c": "prompt_size*batch_size" if prompt else "0",
        "u": "0",
        "latency": column,
    }
    options = ReadOptions(mapping, "ms", {"model": "llama2-70b", "tensor_parallel": "8"})
    file = MEASURED / "splitwise-sim" / "perf_model_a100.csv"
    profile = ingest("table", file, options, aggregation="iteration").profile
    fit_rows = rows_of(profile, "fit")
    calibrate = held_out(profile, "calibrate", fit_rows.scenes())
    m = len(calibration_rows(calibrate, measured_support(profile, fit_rows, calibrate), profile.meta.domain, 299))
    assert 1 <= m <= len(calibrate) == profile.meta.sessions["calibrate"].points
    can = best_coverage(m, 0.95)
    with pytest.raises(CertificationError, match=f"refused: m = {m} calibration points, needs 299.*--coverage {can:g}"):
        fit(profile)
    assert fit(profile, coverage=can).document.certificate.coverage == can


@public
def test_means_of_twenty_certify_nothing():
    profile = ingest("rucnyz", MEASURED / "rucnyz-vllm" / "results.json").profile
    with pytest.raises(CertificationError, match="aggregation is 'mean:20'"):
        fit(profile, coverage=0.5)
