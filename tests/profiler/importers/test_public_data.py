"""Public logs, where CHUNKFIT_PUBLIC_DATA names their folder: every row accounted for, units that make sense."""

import os
from pathlib import Path

import numpy as np
import pytest

from chunkfit.files.errors import LogFormatError
from chunkfit.profiler.importers.copies import COPY
from chunkfit.profiler.importers.ingest import ingest
from chunkfit.profiler.importers.samples import ReadOptions

FOLDER = os.environ.get("CHUNKFIT_PUBLIC_DATA")
pytestmark = pytest.mark.skipif(FOLDER is None, reason="CHUNKFIT_PUBLIC_DATA is not set: no public logs here")
MEASURED = Path(FOLDER or ".") / "measurements"
LIVE = MEASURED / "rucnyz-vllm" / "h200_qwen3_8b_live_first3000.json"
SIMULATOR = MEASURED / "llmservingsim" / "RTXPRO6000-Llama-3.1-8B-bf16-tp1"


@pytest.mark.parametrize(
    ("file", "rows", "left_out"), [("results", 127, 0), ("results2", 308, 2), ("results3", 121, 0)]
)
def test_rucnyz_grids(file, rows, left_out):
    profile = ingest("rucnyz", MEASURED / "rucnyz-vllm" / f"{file}.json").profile
    assert (len(profile), sum(profile.meta.imported.left_out.values())) == (rows, left_out)
    assert profile.meta.aggregation == "mean:20"
    assert profile.meta.domain.max_batch_tokens <= 16_384
    assert 2 < profile.columns["latency_ms"].min() < profile.columns["latency_ms"].max() < 1000
    assert profile.meta.fingerprint.device_name is None


def test_live_steps_without_idle_gaps():
    profile = ingest("rucnyz-live", LIVE, ReadOptions({"k": "600", "u": "0"})).profile
    latency_ms = profile.columns["latency_ms"]
    assert (len(profile), sum(profile.meta.imported.left_out.values())) == (2997, 3)
    assert 5 < latency_ms.min() < np.median(latency_ms) < 50  # a decode of one request takes 5.8 ms
    assert latency_ms.max() < 300  # the idle gap of 507 ms is no iteration
    assert profile.meta.sessions["calibrate"].points == 599


def test_attention_grids_are_operators_in_microseconds():
    profile = ingest("llmservingsim", SIMULATOR / "attention.csv").profile
    assert len(profile) == 19_364
    assert 0.005 < profile.columns["latency_ms"].min() < 0.01
    assert profile.meta.domain.max_context_tokens == 16_384
    assert set(profile.columns["scene"]) == {"decode", "prefill", "mixed"}
    for other in ("skew.csv", "dense.csv"):
        with pytest.raises(LogFormatError, match="column prefill_chunk: not there"):
            ingest("llmservingsim", SIMULATOR / other)


@pytest.mark.parametrize("tensor_parallel", [2, 4, 8])
def test_replicates_of_prompts(tensor_parallel):
    mapping = {
        "n": "0",
        "k": "0",
        "c": "prompt_size*batch_size",
        "u": "0",
        "latency": "prompt_time",
        "chunks": "batch_size",
    }
    where = {"model": "llama2-70b", "tensor_parallel": str(tensor_parallel)}
    options = ReadOptions(mapping, "ms", where)
    profile = ingest("table", MEASURED / "splitwise-sim" / "perf_model_a100.csv", options).profile
    # Five of the 105 rows stand in the file three times, to the last digit of all columns.
    assert len(profile) == 95
    assert profile.meta.imported.left_out[COPY] == 10
    assert profile.meta.domain.context_length == 8192
    assert sum(meta.points for meta in profile.meta.sessions.values()) == 9
    assert 20 < profile.columns["latency_ms"].min() < profile.columns["latency_ms"].max() < 20_000


def test_operator_tables_of_aiconfigurator_are_no_passes():
    folder = MEASURED / "aiconfigurator" / "h200_sxm-vllm-0.24.0"
    for table in folder.glob("*.parquet"):
        with pytest.raises(LogFormatError, match="column workload_kind: not there"):
            ingest("aiconfigurator", table)
