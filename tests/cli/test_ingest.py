"""`chunkfit ingest` as a user runs it."""

import re
from pathlib import Path

import pytest

from chunkfit import Profile
from chunkfit.profiler.importers.registry import FORMATS

IMPORTERS = Path(__file__).parents[1] / "profiler" / "importers"
TABLE = (
    *("table", IMPORTERS / "logs" / "table.csv", "--unit", "us", "--where", "run=a", "--aggregation", "iteration"),
    *("--map", "n=decodes,k=kv_tokens/decodes,c=prompts*prompt_size,u=cached,latency=step_us,order=step"),
)


def test_a_table_is_read_and_what_is_unknown_is_said(command, tmp_path):
    out = tmp_path / "p.parquet"
    done = command("ingest", *TABLE, "--out", out, "--device-name", "NVIDIA H200", "--split", "time")
    assert done.code == 0
    profile = Profile.load(out)
    assert (len(profile), profile.meta.fingerprint.device_name) == (3, "NVIDIA H200")
    for said in (
        "NVIDIA H200 / unknown model / unknown dtype / unknown engine",
        "3 rows; a row is one iteration",
        "1 rows: other than run=a (first: line 5)",
        "note (mixed, decode, prefill)",
        "n to 4, k to 1,000, c to 256, u to 64, n + c to 258, KV to 4,000 tokens",
        "unknown: a log has no sentinel",
        f"written: {out}",
    ):
        assert said in done.out
    assert re.search(r"unknown +device_kind, device_memory_bytes", done.out)


def test_json_holds_the_meta_of_the_profile(command, tmp_path):
    done = command("ingest", *TABLE, "--out", tmp_path / "p.parquet", "--json")
    assert done.json["imported"]["left_out"] == {"other than run=a": 1, "neither decodes nor chunk tokens": 1}
    assert done.json["fingerprint"]["device_name"] is None
    assert done.json["unread"] == {"note": ["mixed", "decode", "prefill"]}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("rucnyz", "bad_logs/rucnyz_total.json"), 1, "results[0], column total_tokens: 5; expected 4"),
        (("iterations", "missing.jsonl"), 2, "cannot be read"),
        (("rucnyz-live", "logs/rucnyz-live.json", "--map", "k"), 2, "--map 'k': 'k'; expected different NAME=VALUE"),
        (("iterations", "logs/iterations.jsonl", "--shares", "1,2,3"), 2, "the sum is 6; expected 100"),
    ],
)
def test_errors_have_their_exit_code_and_write_nothing(command, tmp_path, arguments, code, message):
    name, file, *rest = arguments
    done = command("ingest", name, IMPORTERS / file, "--out", tmp_path / "p.parquet", *rest)
    assert done.code == code
    assert message in done.err
    assert list(tmp_path.iterdir()) == []


def test_the_help_names_every_format(command):
    said = re.sub(r"[\s│]+", " ", command("ingest", "--help").out)
    assert all(name in said for name in FORMATS)
