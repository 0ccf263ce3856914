"""A run in full comes back from its files; logs of others are read by the same columns."""

import numpy as np
import pytest

from chunkfit.files.errors import LogFormatError, StorageError
from chunkfit.files.records import Record, SkippedRows, csv_records
from chunkfit.scheduler.diagnose import diagnose, of_log
from chunkfit.scheduler.run_files import ITERATIONS, REQUESTS, iterations_of, requests_of, save_run
from chunkfit.scheduler.simulation.cell import play, report_of
from tests.support.studies import COSTS, cells_of

ITERATION = {"start_ms": 0, "latency_ms": 5, "decodes": 1, "chunk_tokens": 64, "queued": 2}
REQUEST = {"arrival_ms": 1.5, "prompt_tokens": 100, "output_tokens": 5, "first_token_ms": 9}


def rows(*values):
    return [Record("log", f"row {index}", row) for index, row in enumerate(values)]


@pytest.fixture(scope="module")
def played():
    one = cells_of(("full",), ("85",), 1)[0]
    found = play(one, COSTS, log=True)
    return report_of(one, COSTS, found), found.workload.requests, found.run.results, found.run.log


def test_a_run_comes_back_as_it_was(played, tmp_path):
    _, requests, results, log = played
    save_run(tmp_path / "run", *played)
    read = iterations_of(csv_records(str(tmp_path / "run" / ITERATIONS), SkippedRows()))
    for name in ("start_ms", "latency_ms", "decodes", "chunk_tokens", "queued"):
        assert (read[name] == log[name]).all()
    asked, became = requests_of(csv_records(str(tmp_path / "run" / REQUESTS), SkippedRows()))
    for name in ("arrival_ms", "prompt_tokens", "cached_tokens", "output_tokens", "tpot_ms"):
        assert (asked[name] == requests[name]).all()
    np.testing.assert_array_equal(became["first_token_ms"], results["first_token_ms"])
    told = diagnose(of_log(read, asked, became), asked, became, 25.0)
    assert told == diagnose(of_log(log, requests, results), requests, results, 25.0)


def test_what_is_not_said_is_nan_or_none():
    asked, became = requests_of(rows(REQUEST, REQUEST | {"first_token_ms": ""}, REQUEST | {"tpot_ms": 20}))
    assert np.isnan(became["first_token_ms"]).tolist() == [False, True, False]
    assert np.isnan(asked["tpot_ms"]).tolist() == [True, True, False]
    assert (asked["cached_tokens"] == 0).all()


@pytest.mark.parametrize(
    ("read", "values", "message"),
    [
        (iterations_of, [], "no row; expected at least one iteration"),
        (requests_of, [], "no row; expected at least one request"),
        (iterations_of, [ITERATION | {"latency_ms": 0}], "row 0, column latency_ms: 0; expected a time above 0 ms"),
        (iterations_of, [{"start_ms": 0}], "column decodes: not there"),
        (iterations_of, [ITERATION | {"start_ms": 9}, ITERATION], "row 1, column start_ms: 0; expected rows in order"),
        (requests_of, [REQUEST, REQUEST | {"arrival_ms": 1}], "row 1, column arrival_ms: 1; expected rows in order"),
        (requests_of, [REQUEST | {"first_token_ms": 1}], "first_token_ms: 1; expected a finite number, 1.5 or more"),
        (requests_of, [REQUEST | {"cached_tokens": 100}], "cached_tokens: 100; expected less than the 100 prompt"),
        (requests_of, [{k: v for k, v in REQUEST.items() if k != "first_token_ms"}], "first_token_ms: not there"),
    ],
)
def test_rows_that_cannot_be_are_named(read, values, message):
    with pytest.raises(LogFormatError, match=message):
        read(rows(*values))


def test_a_place_that_cannot_be_written(played, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        save_run(tmp_path / "file" / "run", *played)
