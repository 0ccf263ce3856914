"""Validation recomputes: what was edited, what belongs to other data, and a promise that does not hold."""

from dataclasses import replace

import numpy as np
import pytest
from support.fitting import fit

from chunkfit import CostTable, Profile
from chunkfit.fitters.validate import evidence_findings, validate_with_profile
from chunkfit.profiler.synthetic_profile import synthetic_profile
from chunkfit.tables.document import sealed


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / "p.parquet"
    profile = synthetic_profile(5, fit_points=200, calibrate_points=320, test_points=320)
    sha = profile.save(path)
    return path, profile, fit(profile, profile_sha256=sha)


def wheres(findings):
    return [finding.where for finding in findings]


def test_a_fresh_table_has_no_findings(made, tmp_path):
    path, _, table = made
    table.save(tmp_path / "t.json")
    assert validate_with_profile(tmp_path / "t.json", path)[1] == []


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        ("certificate", "exceedances", 7),
        ("certificate", "allowed", 9),
        ("certificate", "points", 5000),
        ("certificate", "confidence", 0.99),
        ("test", "block_low", 0.999),
    ],
)
def test_any_edited_figure_is_found(made, part, field, value):
    path, _, table = made
    edited = getattr(table.document, part).model_copy(update={field: value})
    findings = evidence_findings(sealed(table.document.model_copy(update={part: edited})), path)
    assert findings
    assert all(where.startswith(f"$.{part}") for where in wheres(findings))


def test_an_edited_error_of_one_scene_is_found(made):
    path, _, table = made
    test = table.document.test
    mixed = test.errors["mixed"].model_copy(update={"p99_percent": 0.1})
    edited = table.document.model_copy(
        update={"test": test.model_copy(update={"errors": test.errors | {"mixed": mixed}})}
    )
    assert wheres(evidence_findings(sealed(edited), path)) == ["$.test.errors.mixed.p99_percent"]


def test_missing_evidence_is_a_finding(made):
    path, _, table = made
    bare = table.document.model_copy(update={"certificate": None, "test": None})
    assert wheres(evidence_findings(sealed(bare), path)) == ["$.certificate", "$.test"]


def test_a_table_of_another_device_is_found(made):
    path, _, table = made
    foreign = table.fingerprint.model_copy(update={"device_name": "another", "torch": "0.0"})
    findings = evidence_findings(sealed(table.document.model_copy(update={"fingerprint": foreign})), path)
    assert wheres(findings) == ["$.fingerprint.device_name"], "a library version is no reason to refuse"


def test_a_promise_that_the_test_session_breaks(made, tmp_path):
    """The machine became a quarter slower after calibration: the coverage found is stored, and is not enough."""
    _, profile, _ = made
    slow = np.where(profile.columns["session"] == "test", 1.25, 1.0)
    slower = Profile(profile.meta, {**profile.columns, "latency_ms": profile.columns["latency_ms"] * slow})
    path = tmp_path / "slow.parquet"
    sha = slower.save(path)
    table = fit(slower, profile_sha256=sha)
    assert table.document.test.coverage.high < 0.99
    (finding,) = evidence_findings(table.document, path)
    assert finding.where == "$.certificate.coverage"
    assert "the promise does not hold" in finding.message


def test_a_bound_lowered_everywhere_breaks_its_certificate(made):
    path, _, table = made
    scenes = {
        scene: stored.model_copy(
            update={
                "ladder": stored.ladder.model_copy(update={"bound_ms": stored.ladder.expected_ms}),
                "base": stored.base.model_copy(update={"bound_ms": stored.base.expected_ms}),
            }
        )
        for scene, stored in table.document.scenes.items()
    }
    findings = evidence_findings(sealed(table.document.model_copy(update={"scenes": scenes})), path)
    assert findings[0].where == "$.certificate"
    assert "calibration rows lie above the bound" in findings[0].message


def test_meta_of_other_aggregation_is_found(made, tmp_path):
    _, profile, table = made
    path = tmp_path / "means.parquet"
    replace(profile, meta=profile.meta.model_copy(update={"aggregation": "mean:20"})).save(path)
    assert {"$.profile_sha256", "$.aggregation"} <= set(wheres(evidence_findings(table.document, path)))


def test_findings_come_with_the_file_first(made, tmp_path):
    path, _, table = made
    (tmp_path / "t.json").write_text("{")
    assert validate_with_profile(tmp_path / "t.json", path)[0] is None
    table.save(tmp_path / "t.json")
    assert isinstance(CostTable.load(tmp_path / "t.json"), CostTable)
