"""A run report: round trip, strict reading, CSV, what it shows."""

import csv
import io
import json

import numpy as np
import pytest
from rich.console import Console

from chunkfit.files.errors import RunReportError, StorageError
from chunkfit.scheduler.dtypes import Status
from chunkfit.scheduler.run_report import (
    CostsV1,
    RunReport,
    csv_text,
    load,
    scheduling_facts,
    workload_facts,
    write_csv,
)
from chunkfit.scheduler.serving_metrics import measure
from chunkfit.scheduler.workloads.registry import workload
from tests.support.runs import finished, never_started


@pytest.fixture
def report():
    made = workload("mixed:requests=200", 4)
    results = finished(made.requests, 300.0, 20.0)
    never_started(results, [5], Status.REFUSED)
    return RunReport(
        created_by="chunkfit test",
        kind="simulated",
        device="[a GPU]",
        policy="sloweave",
        policy_options={"prefills": 8, "margin": 0.0},
        workload=workload_facts(made),
        costs=CostsV1(true="formula", policy="formula, bound"),
        metrics=measure(made.requests, results, "per_token", 30_000),
        counts={"iterations": 4321},
        exceptions={"aged_prefill": 2},
        scheduling=scheduling_facts(np.array([1.0, 2.0, 9.0]), added=True),
        joules=398.0,
    )


def test_it_comes_back_as_it_was(report, tmp_path):
    report.save(tmp_path / "run.json")
    assert load(tmp_path / "run.json") == report
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_the_figures_are_the_runs(report):
    assert report.over_all.good == 199
    assert report.joules_per_good == 2.0
    assert report.scheduling.p99_us == 9.0
    assert report.workload.sha256 == workload(report.workload.spec, report.workload.seed).sha256()
    assert report.model_copy(update={"joules": None}).joules_per_good is None
    assert scheduling_facts(np.array([]), added=False) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 2}, r"\$.schema_version: .* expected chunkfit.run-report version 1"),
        ({"format": "chunkfit.cost-table"}, r"\$.format"),
        ({"surprise": 1}, r"\$.surprise: Extra inputs"),
        ({"kind": "guessed"}, r"\$.kind"),
        ({"joules": "12"}, r"\$.joules"),
        ({"counts": {"iterations": -1}}, r"\$.counts.iterations"),
        (
            {"metrics": {"criterion": "schedule", "makespan_s": 1.0, "groups": {}}},
            r"\$.metrics.groups: .* no group `all`",
        ),
        ({"costs": {"true": "formula"}}, r"\$.costs.policy: Field required"),
    ],
)
def test_reading_is_strict(report, tmp_path, change, message):
    path = tmp_path / "run.json"
    path.write_text(json.dumps({**json.loads(report.model_dump_json()), **change}))
    with pytest.raises(RunReportError, match=message):
        load(path)


def test_cut_and_missing_files_are_refused(report, tmp_path):
    path = tmp_path / "run.json"
    path.write_text(report.model_dump_json()[:-10])
    with pytest.raises(RunReportError, match="Invalid JSON"):
        load(path)
    with pytest.raises(RunReportError, match="cannot be read"):
        load(tmp_path / "nothing.json")
    with pytest.raises(StorageError):
        report.save(tmp_path / "no" / "folder.json")


def test_csv_has_a_row_a_group(report, tmp_path):
    write_csv([report, report], tmp_path / "runs.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "runs.csv").read_text())))
    assert [row["group"] for row in rows] == ["all", "application 0", "application 1"] * 2
    first = rows[0]
    assert (first["policy"], first["seed"], first["criterion"]) == ("sloweave", "4", "per_token")
    assert (first["workload"], first["policy_cost"]) == (report.workload.spec, "formula, bound")
    assert float(first["good_share"]) == report.over_all.good_share
    assert float(first["ttft_ms_p99"]) == report.over_all.ttft_ms.p99
    assert csv_text([]).splitlines() == [",".join(first)]


def test_it_shows_itself(report):
    console = Console(width=140, file=io.StringIO())
    console.print(report)
    shown = console.file.getvalue()
    for part in ("sloweave", "mixed:requests=200", "seed 4", "[a GPU]", "99.5%", "application 1", "refused 1"):
        assert part in shown
    assert "aged prefill 2" in shown
    assert "2 J per good request" in shown
