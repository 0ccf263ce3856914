"""The verdict of a table where it is fitted and wherever it is used."""

import json

import numpy as np
import pytest
from support.synthetic_log import logged

from chunkfit import CostTable
from chunkfit.tables.document import checksum


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A log that becomes 1.3 times slower at 85%: inside the test session. And one that does not."""
    folder = tmp_path_factory.mktemp("verdict")
    late = lambda ms: np.where(np.arange(len(ms)) > 0.85 * len(ms), 1.3 * ms, ms)  # noqa: E731
    logged(folder, rows=1600, change=late).save(folder / "late.parquet")
    logged(folder, rows=1600).save(folder / "plain.parquet")
    return folder


def fitted(folder, name, command):
    table = folder / f"{name}.json"
    done = command("fit", folder / f"{name}.parquet", "--out", table, "--fitter", "scene_experts")
    return done, table


def test_a_table_that_its_test_session_refutes_is_written_as_such_and_refused(folder, command):
    done, table = fitted(folder, "late", command)
    assert done.code == 1
    assert done.out.splitlines()[0].split() == ["verdict", "do", "not", "use"]
    assert "the promise does not hold" in " ".join(done.out.split())
    verdict = CostTable.load(table).document.verdict
    assert (verdict.grade, verdict.concerns[0].name) == ("do not use", "test_session")

    state = ("--decodes", 8, "--context", 500)
    asked = {
        "chunk": ("chunk", table, *state, "--budget", "25ms"),
        "size": ("size", table, *state, "--tpot", "25ms"),
        "simulate": ("simulate", "--cost", table, "--policy", "fixed-64", "--seeds", 1),
        "live": ("live", table, "--seconds", 1),
    }
    for name, arguments in asked.items():
        refused = command(*arguments)
        assert refused.code == 1, name
        assert "do not use: the promise does not hold" in refused.err, name
        assert "--allow-refuted" in refused.err, name
    allowed = command(*asked["chunk"], "--allow-refuted", "--json")
    assert (allowed.code, allowed.json["verdict"]) == (0, "do not use")
    assert "do not use" in command("show", table).out
    found = command("validate", table, "--profile", folder / "late.parquet")
    assert found.code == 1


def test_a_clean_log_has_a_good_verdict_and_every_command_says_so(folder, command):
    done, table = fitted(folder, "plain", command)
    assert (done.code, done.out.splitlines()[0].split()) == (0, ["verdict", "good"])
    state = ("--decodes", 8, "--context", 500)
    assert command("chunk", table, *state, "--budget", "25ms", "--json").json["verdict"] == "good"
    assert "verdict" in command("size", table, *state, "--tpot", "25ms").out
    assert command("validate", table, "--profile", folder / "plain.parquet").code == 0


def test_an_edited_verdict_is_found(folder, command, tmp_path):

    table = folder / "late.json"
    if not table.exists():
        fitted(folder, "late", command)
    content = json.loads(table.read_text())
    content["verdict"] = {"grade": "good", "concerns": []}
    content["content_sha256"] = checksum(content)
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(content))
    found = command("validate", path, "--profile", folder / "late.parquet", "--json").json["findings"]
    assert "$.verdict.grade" in [finding["where"] for finding in found]
