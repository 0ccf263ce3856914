"""`fit --uncertified` and what the other commands make of its table."""

import pytest
from support.engine_log import COLUMNS, write_engine_log

MAPPING = ",".join(f"{name}={column}" for name, column in COLUMNS.mapping.items())


@pytest.fixture(scope="module")
def folder(tmp_path_factory, command):
    folder = tmp_path_factory.mktemp("means")
    log = write_engine_log(folder / "log.csv")
    done = command(
        *("ingest", "table", log, "--map", MAPPING, "--unit", COLUMNS.unit, "--aggregation", "mean:5"),
        *("--out", folder / "p.parquet"),
    )
    assert done.code == 0, done.err
    assert "fit --uncertified gives expected times" in " ".join(done.out.split())
    return folder


def test_means_become_a_table_of_expected_times_that_plans_and_does_not_schedule(folder, command):
    profile, table = folder / "p.parquet", folder / "t.json"
    refused = command("fit", profile, "--out", table)
    assert refused.code == 1
    assert "`chunkfit fit --uncertified` makes a table of expected times" in refused.err
    assert not table.exists()
    done = command("fit", profile, "--uncertified", "--fitter", "scene_experts", "--out", table)
    assert (done.code, done.out.splitlines()[0].split()) == (0, ["verdict", "wide"])
    assert "nothing is certified: bounds are expected times" in " ".join(done.out.split())
    for asked in (
        ("show", table),
        ("chunk", table, "--decodes", 4, "--budget", "2s"),
        ("size", table, "--decodes", 4, "--tpot", "2s"),
    ):
        answer = command(*asked)
        assert answer.code == 0, answer.err
        assert "nothing is certified" in " ".join(answer.out.split()), asked[0]
    assert command("validate", table, "--profile", profile).code == 0
    live = command("live", table, "--seconds", 1)
    assert live.code == 1
    assert "nothing is certified, so half of the iterations would be over its bounds" in live.err
