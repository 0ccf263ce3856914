"""Each format on a small log: what becomes of every row, and what stays unknown."""

import gzip
import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chunkfit import Batch, Profile
from chunkfit.files.errors import LogFormatError, UsageError
from chunkfit.profiler.importers.ingest import ingest
from chunkfit.profiler.importers.samples import ReadOptions
from chunkfit.profiler.meta import ProfileMeta
from chunkfit.profiler.profile import concat
from chunkfit.tables.fingerprint import Fingerprint

LOGS = Path(__file__).parent / "logs"
TABLE_MAP = {
    "n": "decodes",
    "k": "kv_tokens/decodes",
    "c": "prompts*prompt_size",
    "u": "cached",
    "latency": "step_us",
    "chunks": "prompts",
    "order": "step",
}


def rows(profile):
    """(n, k, c, u, latency_ms) of every row, in the order of the log where it was cut by time."""
    return [
        (*point, latency)
        for point, latency in zip(profile.points().tolist(), profile.columns["latency_ms"].tolist(), strict=True)
    ]


def read(name, file, by="time", **said):
    return ingest(name, LOGS / file, ReadOptions(**said), split=by)


def test_a_table_by_its_columns():
    ingested = read("table", "table.csv", mapping=TABLE_MAP, unit="us", where={"run": "a"})
    profile = ingested.profile
    assert rows(profile) == [(4, 1000, 0, 0, 3.0005), (0, 0, 256, 0, 2.5), (2, 501, 256, 64, 4.1)]
    assert profile.meta.imported.left_out == {"other than run=a": 1, "neither decodes nor chunk tokens": 1}
    assert ingested.left_out == [
        "1 rows: other than run=a (first: line 5)",
        "1 rows: neither decodes nor chunk tokens (first: line 6)",
    ]
    assert ingested.unread == {"note": ["mixed", "decode", "prefill"]}
    assert profile.meta.aggregation == "unknown"
    assert profile.meta.imported.several_chunks == 1
    assert profile.meta.domain.context_length == 1000  # two chunks of 128: 256 is no context of one request
    assert profile.meta.fingerprint == Fingerprint()
    assert profile.meta.imported.stated["map k"] == "kv_tokens/decodes"


def test_a_table_of_json_lines_and_of_parquet(tmp_path):
    mapping = {"n": "decodes", "k": "context", "c": "chunk", "u": "prefix", "latency": "ms"}
    from_json = read("table", "table.jsonl", mapping=mapping, unit="ms")
    assert rows(from_json.profile) == [(2, 501, 256, 64, 4.1), (0, 0, 256, 0, 2.5)]
    lines = [json.loads(line) for line in (LOGS / "table.jsonl").read_text().splitlines() if line]
    pq.write_table(pa.Table.from_pylist(lines), tmp_path / "t.parquet")
    from_parquet = ingest("table", tmp_path / "t.parquet", ReadOptions(mapping, "ms"), split="time")
    assert rows(from_parquet.profile) == rows(from_json.profile)


def test_iterations_request_by_request():
    ingested = read("iterations", "iterations.jsonl")
    meta = ingested.profile.meta
    unequal = Batch.with_chunks([512, 31, 31], [(256, 0), (64, 1024)])
    assert rows(ingested.profile) == [(2, 100, 0, 0, 8.0), (*unequal.point(), 12.5), (0, 0, 128, 32, 9.5)]
    assert ingested.profile.columns["started_s"].tolist() == [0.0, 0.25, 1.0]
    assert (meta.aggregation, meta.imported.unequal_contexts, meta.imported.several_chunks) == ("iteration", 1, 1)
    assert meta.domain.context_length == 1088  # 64 tokens after 1,024
    assert ingested.unread == {"step": ["2", "1", "3"]}


def test_dynamo_traces():
    profile = read("dynamo-trace", "dynamo-trace.jsonl").profile
    assert rows(profile) == [(2, 100, 0, 0, 4.0), (3, 334, 300, 64, 25.0)]
    assert profile.columns["started_s"].tolist() == [0.0, 0.5]
    assert profile.meta.imported.left_out == {"nothing scheduled": 1, "wall_time 0": 1}
    assert (profile.meta.imported.unequal_contexts, profile.meta.imported.several_chunks) == (1, 1)


def test_a_compressed_log_and_one_whose_writer_was_killed(tmp_path):
    text = (LOGS / "dynamo-trace.jsonl").read_bytes()
    whole, cut = tmp_path / "t.jsonl.gz", tmp_path / "cut.jsonl.gz"
    whole.write_bytes(gzip.compress(text))
    cut.write_bytes(gzip.compress(text) + gzip.compress(text)[:40])  # a flush appends a member
    assert rows(ingest("dynamo-trace", whole).profile) == rows(read("dynamo-trace", "dynamo-trace.jsonl").profile)
    ingested = ingest("dynamo-trace", cut)
    assert len(ingested.profile) == 2
    assert ingested.left_out[-1] == "1 rows: the compressed file is cut off (first: after line 4)"


def aiconfigurator_row(kind, requests, tokens, kv, latency_ms, **identity):
    return {
        "model_path": "Qwen/Qwen3-32B",
        "system": "h200_sxm",
        "backend": "vllm",
        "backend_version": "0.24.0",
        "gemm_quant_mode": "fp8",
        "kv_cache_dtype": "bfloat16",
        "tp": 2,
        "attention_backend": "auto",
        **identity,
        "workload_kind": kind,
        "batch_size": requests,
        "total_prefill_tokens": tokens,
        "total_kv_read_tokens": kv,
        "latency_ms": latency_ms,
        "cell_id": "c",
    }


@pytest.fixture
def passes(tmp_path):
    path = tmp_path / "fpm_forward_perf.parquet"
    table = [
        aiconfigurator_row("prefill", 2, 256, 64, 9.5),
        aiconfigurator_row("decode", 3, 0, 301, 4.5),
        aiconfigurator_row("decode", 3, 0, 301, 2.5, tp=4),
    ]
    pq.write_table(pa.Table.from_pylist(table), path)
    return path


def test_aiconfigurator_passes_are_of_one_thing(passes):
    with pytest.raises(LogFormatError, match=r"row 2 \(from 0\), column tp: 4; expected 2 as in row 0.*--where tp="):
        ingest("aiconfigurator", passes)
    ingested = ingest("aiconfigurator", passes, ReadOptions(where={"tp": "2"}), split="time")
    profile = ingested.profile
    assert rows(profile) == [(0, 0, 256, 64, 9.5), (3, 101, 0, 0, 4.5)]
    assert profile.meta.fingerprint == Fingerprint(
        device_name="h200_sxm",
        model_name="Qwen/Qwen3-32B",
        dtype="fp8 weights, bfloat16 KV",
        tensor_parallel=2,
        engine="vllm",
        engine_version="0.24.0",
    )
    assert (profile.meta.aggregation, ingested.unread) == ("unknown", {"cell_id": ["c"]})


def test_the_file_beside_aiconfigurator_passes_says_what_a_row_is(passes):
    beside = passes.with_suffix(".metadata.json")
    said = {
        "schema_name": "aic_fpm_forward_perf",
        "measurement_policy": "dynamo_native_single_sample_v1",
        "parquet_sha256": hashlib.sha256(passes.read_bytes()).hexdigest(),
    }
    where = ReadOptions(where={"tp": "2"})
    beside.write_text(json.dumps(said))
    assert ingest("aiconfigurator", passes, where).profile.meta.aggregation == "iteration"
    beside.write_text(json.dumps(said | {"measurement_policy": "something_else"}))
    assert ingest("aiconfigurator", passes, where).profile.meta.aggregation == "unknown"
    beside.write_text(json.dumps(said | {"parquet_sha256": "0" * 64}))
    with pytest.raises(LogFormatError, match=r"metadata.json: top level, column parquet_sha256: '000.*expected"):
        ingest("aiconfigurator", passes, where)


def test_vllm_ascend_tables():
    profile = read("vllm-ascend", "vllm-ascend.csv", mapping={"u": "0"}).profile
    assert rows(profile) == [
        (1, 512, 0, 0, 14.5),
        (1, 512, 256, 0, 21.25),
        (8, 1024, 512, 0, 33.0),
        (0, 0, 512, 0, 30.5),
    ]
    assert profile.meta.aggregation == "unknown"
    assert profile.meta.fingerprint == Fingerprint(engine="vllm-ascend")


def test_llmservingsim_attention_is_an_operator():
    profile = read("llmservingsim", "llmservingsim.csv").profile
    assert [row[:4] for row in rows(profile)] == [(4, 64, 0, 0), (0, 0, 128, 512), (4, 64, 128, 512)]
    np.testing.assert_allclose(profile.columns["latency_ms"], [0.0095, 0.04025, 0.052], rtol=1e-12)
    assert profile.meta.aggregation == "mean:3"
    assert "operator" in profile.meta.fingerprint.title()


def test_rucnyz_grids():
    profile = read("rucnyz", "rucnyz.json").profile
    assert rows(profile) == [(64, 32, 0, 0, 10.5), (64, 32, 256, 0, 12.5), (0, 0, 1024, 0, 30.0)]
    assert profile.meta.aggregation == "mean:20"
    assert profile.meta.imported.several_chunks == 1
    assert list(profile.meta.imported.left_out) == [
        "above the engine's budget of 1,024 tokens: another batch was timed"
    ]
    known = Fingerprint(model_name="Qwen/Qwen3-4B", dtype="float16", engine="vllm", capture_sizes=())
    assert profile.meta.fingerprint == known


def test_rucnyz_live_steps_last_until_the_next_call():
    ingested = read("rucnyz-live", "rucnyz-live.json", mapping={"k": "600", "u": "0"})
    assert rows(ingested.profile) == [(0, 0, 692, 0, 250.0), (2, 600, 0, 0, 31.25), (2, 600, 6, 0, 62.5)]
    assert ingested.profile.meta.imported.several_chunks == 1
    assert ingested.left_out == [
        "1 rows: nothing scheduled (first: stats[2])",
        "1 rows: the last call: its end is not known (first: stats[4])",
    ]


def test_what_the_log_does_not_say_the_user_may_and_nothing_else():
    stated = Fingerprint(device_name="NVIDIA H200", tensor_parallel=1)
    known = ingest("rucnyz", LOGS / "rucnyz.json", stated=stated).profile.meta.fingerprint
    assert (known.device_name, known.tensor_parallel, known.dtype, known.driver) == ("NVIDIA H200", 1, "float16", None)
    with pytest.raises(UsageError, match=r"--dtype 'bfloat16': .*rucnyz.json says 'float16'"):
        ingest("rucnyz", LOGS / "rucnyz.json", stated=Fingerprint(dtype="bfloat16"))
    with pytest.raises(UsageError, match=r"--aggregation iteration: .*rucnyz.json says mean:20"):
        ingest("rucnyz", LOGS / "rucnyz.json", aggregation="iteration")
    with pytest.raises(UsageError, match="--aggregation: aggregation 'median'; expected iteration, mean:N"):
        ingest("llmservingsim", LOGS / "llmservingsim.csv", aggregation="median")
    said = ReadOptions({"u": "0"})
    assert (
        ingest("vllm-ascend", LOGS / "vllm-ascend.csv", said, aggregation="mean:5").profile.meta.aggregation == "mean:5"
    )


@pytest.mark.parametrize(
    ("name", "said", "message"),
    [
        ("sglang", {}, "format 'sglang' is unknown; expected one of: table, any CSV, .*; iterations, JSON lines"),
        (
            "table",
            {"mapping": {"n": "decodes"}, "unit": "ms"},
            "needs n, k, c, u, latency, may have chunks, order .*found n",
        ),
        ("table", {"mapping": TABLE_MAP}, "--unit None: expected the unit of the latencies: us, ms, s"),
        ("table", {"mapping": TABLE_MAP, "unit": "min"}, "--unit 'min'"),
        ("table", {"mapping": TABLE_MAP | {"k": "a**b"}, "unit": "ms"}, r"--map k='a\*\*b': expected a column"),
        ("table", {"mapping": TABLE_MAP | {"k": "a/0"}, "unit": "ms"}, "--map k='a/0'"),
        ("rucnyz", {"mapping": {"k": "9"}}, "format rucnyz needs nothing"),
        ("rucnyz-live", {}, "needs k, u .*whole numbers that the file lacks.*found nothing"),
        ("rucnyz-live", {"mapping": {"k": "context", "u": "0"}}, "--map k='context': no column of this format"),
        ("rucnyz-live", {"mapping": {"k": "0", "u": "0"}}, "--map k='0': .*a whole number of tokens, 1 or more"),
        ("table", {"mapping": TABLE_MAP | {"latency": "7"}, "unit": "ms"}, "--map latency='7': expected a column"),
        ("rucnyz", {"unit": "ms"}, "--unit ms: format rucnyz says its own unit"),
        ("rucnyz", {"where": {"a": "1"}}, "--where: format rucnyz is of one thing"),
    ],
)
def test_options_that_do_not_fit(name, said, message):
    file = {"table": "table.csv", "rucnyz-live": "rucnyz-live.json"}.get(name, "rucnyz.json")
    with pytest.raises(UsageError, match=message):
        ingest(name, LOGS / file, ReadOptions(**said))


def test_a_profile_of_a_log_says_so_and_survives_the_file(tmp_path):
    profile = ingest("rucnyz_live", LOGS / "rucnyz-live.json", ReadOptions({"k": "600", "u": "0"})).profile
    profile.save(tmp_path / "p.parquet")
    again = Profile.load(tmp_path / "p.parquet")
    assert again.meta == profile.meta
    older = profile.meta.model_dump(exclude={"imported"})
    assert ProfileMeta.model_validate(older).imported is None  # files that know nothing of logs stay readable
    imported = again.meta.imported
    assert (imported.format, imported.file) == ("rucnyz-live", "rucnyz-live.json")
    assert imported.sha256 == hashlib.sha256((LOGS / "rucnyz-live.json").read_bytes()).hexdigest()
    assert imported.stated == {"map k": "600", "map u": "0"}
    assert set(again.columns["throttle"]) == {"unknown"}
    for session in again.meta.sessions.values():
        assert session.sentinel.quiet is None
        assert "unknown" in session.sentinel.title()
    with pytest.raises(UsageError, match=r"imported from rucnyz-live.json; expected measured profiles to join"):
        concat([profile, profile])
