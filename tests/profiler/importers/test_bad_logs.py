"""Logs that are refused: each names the place and the column; only a last line that is cut is left out."""

from pathlib import Path

import pytest

from chunkfit.files.errors import LogFormatError, UsageError
from chunkfit.profiler.importers.ingest import ingest
from chunkfit.profiler.importers.samples import ReadOptions

BAD = Path(__file__).parent / "bad_logs"
COLUMNS = ReadOptions({"n": "n", "k": "k", "c": "c", "u": "u", "latency": "ms"}, "ms")
LIVE = ReadOptions({"k": "600", "u": "0"})
CASES = {
    "negative.csv": ("table", COLUMNS, "line 3, column k: '-8'; expected a finite number, 0 or more"),
    "text.csv": ("table", COLUMNS, "line 3, column k: 'eight'; expected a finite number"),
    "empty_cell.csv": ("table", COLUMNS, "line 3, column ms: ''; expected a finite number"),
    "zero_latency.csv": ("table", COLUMNS, "line 3, column ms: '0'; expected a time above 0"),
    "infinite.csv": ("table", COLUMNS, "line 3, column ms: 'inf'; expected a finite number"),
    "half_a_decode.csv": ("table", COLUMNS, r"line 2, column n: n = 1\.5; expected a whole number"),
    "no_context.csv": ("table", COLUMNS, "line 2, column k: k = 0; expected a whole number, 1 or more"),
    "too_many.csv": ("table", COLUMNS, r"line 2, column n: n = 1e\+12; expected a whole number"),
    "far_too_many.jsonl": ("iterations", None, "line 1, column decode_contexts: .*expected whole numbers"),
    "short_row.csv": ("table", COLUMNS, r"line 2: 4 values; expected 5 \(n, k, c, u, ms\)"),
    "twice.csv": ("table", COLUMNS, "line 1: .*expected a header of different column names"),
    "no_column.csv": (
        "table",
        COLUMNS,
        r"line 2, column ms: not there; .*found n, k, c, u, time\): is it of this format",
    ),
    "empty.csv": ("table", COLUMNS, "line 1: no line; expected a header"),
    "header.csv": ("table", COLUMNS, r"not one iteration in it \(it has no rows\)"),
    "only_idle.csv": (
        "table",
        COLUMNS,
        r"not one iteration .*2 rows: neither decodes nor chunk tokens \(first: line 2\)",
    ),
    "open_quote.csv": ("table", COLUMNS, "line 3: .*expected comma-separated values"),
    "not_utf8.csv": ("table", COLUMNS, "after line .: not UTF-8"),
    "nothing.parquet": ("table", COLUMNS, "not a readable Parquet file"),
    "torn_in_the_middle.jsonl": ("iterations", None, "line 2: not JSON"),
    "context_zero.jsonl": (
        "iterations",
        None,
        r"line 1, column decode_contexts: \[8, 0\]; expected whole numbers, 1 or",
    ),
    "chunk_zero.jsonl": ("iterations", None, r"line 1, column chunks: \[\[0, 5\]\]; expected lists of two"),
    "chunk_without_prefix.jsonl": ("iterations", None, r"line 1, column chunks: \[64\]"),
    "no_chunks.jsonl": ("iterations", None, "line 1, column chunks: not there; expected a list"),
    "nan.jsonl": ("iterations", None, "line 1: not JSON .*NaN is no number"),
    "time_missing.jsonl": ("iterations", None, "line 2, column time_s: not there"),
    "list.jsonl": ("iterations", None, "line 1: a list; expected one object a line"),
    "dynamo_schema.jsonl": (
        "dynamo-trace",
        None,
        "line 1, column schema: 'dynamo.fpm.trace.v2'; expected dynamo.fpm.t",
    ),
    "dynamo_version.jsonl": ("dynamo-trace", None, "line 1, column version: 2; expected 1"),
    "dynamo_no_work.jsonl": ("dynamo-trace", None, "line 1, column scheduled_requests: not there; expected an object"),
    "dynamo_no_request.jsonl": (
        "dynamo-trace",
        None,
        "column scheduled_requests.num_prefill_requests: 0; expected none",
    ),
    "dynamo_wall_time.jsonl": (
        "dynamo-trace",
        None,
        "line 1, column wall_time: -0.1; expected a finite number, 0 or more",
    ),
    "ascend_text.csv": (
        "vllm-ascend",
        ReadOptions({"u": "0"}),
        "line 3, column chunk_size: 'x'; expected a whole number",
    ),
    "skew.csv": ("llmservingsim", None, "line 2, column prefill_chunk: not there; .*found regime, n, t_mean_us"),
    "rucnyz_total.json": (
        "rucnyz",
        None,
        r"results\[0\], column total_tokens: 5; expected 4, decodes and chunk tokens",
    ),
    "rucnyz_config.json": ("rucnyz", None, "column config.max_num_batched_tokens: not there"),
    "live_back.json": (
        "rucnyz-live",
        LIVE,
        r"stats\[1\], column timestamp: 1.0; expected later than stats\[0\] \(2.0\)",
    ),
    "live_cut.json": ("rucnyz-live", LIVE, "not JSON .*is the file whole"),
}


def test_every_bad_log_has_a_case():
    assert {path.name for path in BAD.iterdir()} == CASES.keys()


@pytest.mark.parametrize("file", CASES)
def test_what_is_not_understood_is_refused_by_place_and_column(file):
    name, options, message = CASES[file]
    with pytest.raises(LogFormatError, match=message) as caught:
        ingest(name, BAD / file, options)
    assert str(caught.value).startswith(str(BAD / file))
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("name", ["missing.csv", "missing.jsonl.gz", "missing.parquet"])
def test_a_file_that_cannot_be_opened_is_wrong_usage(tmp_path, name):
    with pytest.raises(UsageError, match="cannot be read"):
        ingest("table", tmp_path / name, COLUMNS)


def test_a_file_of_unknown_kind_is_wrong_usage(tmp_path):
    for name in ("log.txt", "log.parquet.gz"):
        with pytest.raises(UsageError, match=r"expected a name that ends in \.csv, \.jsonl, \.ndjson, \.parquet"):
            ingest("table", tmp_path / name, COLUMNS)


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_of_other_systems(tmp_path, end):
    (tmp_path / "log.csv").write_bytes(f"n,k,c,u,ms{end}1,8,0,0,2.5{end}1,8,0,0,2.5{end}".encode())
    ingested = ingest("table", tmp_path / "log.csv", COLUMNS)
    assert (len(ingested.profile), ingested.left_out) == (2, [])


def test_a_last_line_that_may_be_cut_is_left_out(tmp_path):
    whole = "n,k,c,u,ms\n1,8,0,0,2.5\n1,8,0,0,2.5\n"
    for cut in (whole + "1,8,0,0,12", whole + "1,8,", whole + '1,"8'):  # 12 may have been 12.5
        (tmp_path / "log.csv").write_text(cut)
        ingested = ingest("table", tmp_path / "log.csv", COLUMNS)
        assert len(ingested.profile) == 2
        assert ingested.left_out == ["1 rows: the last line is cut off (first: line 4)"]
    line = '{"decode_contexts": [8], "chunks": [], "latency_ms": 2.5}'
    (tmp_path / "log.jsonl").write_text(line + "\n" + line[:40])
    ingested = ingest("iterations", tmp_path / "log.jsonl")
    assert (len(ingested.profile), ingested.left_out) == (1, ["1 rows: the last line is cut off (first: line 2)"])
    (tmp_path / "log.jsonl").write_text(line + "\n" + line)  # a whole object is whole
    assert len(ingest("iterations", tmp_path / "log.jsonl").profile) == 2
