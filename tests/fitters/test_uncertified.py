"""Tables of expected times alone: made from means, marked everywhere, refused by what schedules."""

import csv

import numpy as np
import pytest
from support.synthetic_log import batches

from chunkfit import CostTable
from chunkfit.fitters.fit import fit_expected
from chunkfit.fitters.validate import validate_with_profile
from chunkfit.profiler.devices import truth
from chunkfit.profiler.importers.ingest import ingest
from chunkfit.profiler.importers.samples import ReadOptions
from chunkfit.tables.verdict import Grade


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Means of three iterations of 300 batches: a profile and its table, in files."""
    folder = tmp_path_factory.mktemp("means")
    points = batches(9, 300)
    times = np.mean([truth.sample_ms(points, np.full(len(points), i), 3, "live") for i in range(3)], axis=0)
    with (folder / "log.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow("nkcut")
        writer.writerows([*point, ms] for point, ms in zip(points.tolist(), times.tolist(), strict=True))
    options = ReadOptions({"n": "n", "k": "k", "c": "c", "u": "u", "latency": "t"}, unit="ms")
    profile = ingest("table", folder / "log.csv", options, aggregation="mean:3").profile
    sha = profile.save(folder / "p.parquet")
    table = fit_expected(profile, fitter="scene_experts", profile_sha256=sha)
    table.save(folder / "t.json")
    return folder, table, points


def test_expected_times_are_right_and_nothing_is_promised(made):
    _, table, points = made
    document = table.document
    assert (document.certificate, document.gap, document.price) == (None, None, [])
    assert document.aggregation == "mean:3"
    points = points[table.domain.contains(points)]
    points = points[table.arrays.answers(points)]
    expected, bound = table.read(points)
    error = np.abs(expected / truth.median_ms(points) - 1)
    assert np.median(error) < 0.05
    assert (bound >= expected).all()
    assert np.median(bound / expected) < 1.05
    assert document.test.errors["all"].rows > 20


def test_it_says_what_it_is(made):
    _, table, _ = made
    verdict = table.document.verdict
    assert (verdict.grade, verdict.concerns[0].name) == (Grade.WIDE, "uncertified")
    assert "not certified" in repr(table)


def test_the_file_validates_against_its_profile(made):
    folder, _, _ = made
    found, findings = validate_with_profile(folder / "t.json", folder / "p.parquet")
    assert findings == []
    unmarked = found.model_copy(update={"verdict": None})
    CostTable(unmarked).save(folder / "unmarked.json")
    wheres = [finding.where for finding in validate_with_profile(folder / "unmarked.json", folder / "p.parquet")[1]]
    assert "$.certificate" in wheres
