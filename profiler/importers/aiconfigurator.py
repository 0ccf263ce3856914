"""Whole forward passes measured by NVIDIA AIConfigurator: fpm_forward_perf.parquet, schema aic_fpm_forward_perf.

A row is a pass of batch_size requests, prefill (total_prefill_tokens after total_kv_read_tokens) or decode
(total_kv_read_tokens over the batch), in latency_ms; never both. One file holds many models and layouts, one
table only one: --where chooses. What a row is (one pass or a mean) stands in the file beside it,
fpm_forward_perf.metadata.json; without that it is unknown. The operator tables of AIConfigurator are no passes.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from ...files.records import Record, SkippedRows, json_document, parquet_records
from ...tables.fingerprint import Fingerprint
from .mapping import selected, where_text
from .samples import Imported, LogFormat, LoggedIteration, ReadOptions, UnreadColumns

SCHEMA = "aic_fpm_forward_perf"
POLICIES = {"dynamo_native_single_sample_v1": "iteration"}
WORK = ("workload_kind", "batch_size", "total_prefill_tokens", "total_kv_read_tokens", "latency_ms")
# What decides the work of a pass: one value each in what is read, or the rows are of different things.
IDENTITY = (
    *("model_path", "system", "backend", "backend_version", "gemm_quant_mode", "moe_quant_mode", "fmha_quant_mode"),
    *("comm_quant_mode", "kv_cache_dtype", "tp", "pp", "dp", "moe_tp", "moe_ep", "cp", "moe_backend"),
    *("attention_backend", "enable_wideep", "enable_eplb"),
)


def read(path: str, options: ReadOptions, left_out: SkippedRows) -> Imported:
    """Raises UsageError, LogFormatError, MissingExtraError."""
    unread = UnreadColumns((*WORK, *IDENTITY, *options.where))
    samples: list[LoggedIteration] = []
    first: Record | None = None
    for record in parquet_records(path, left_out):
        if not selected(record, options.where):
            left_out.add(f"other than {where_text(options.where)}", record.place)
            continue
        sample = _sample(record)
        first = first or record
        for column in IDENTITY:
            if record.values.get(column) != first.values.get(column):
                raise record.wrong(
                    column, f"{first.values.get(column)!r} as in {first.place}: choose one with --where {column}=..."
                )
        unread.see(record)
        samples.append(sample)
    known = Fingerprint() if first is None else _fingerprint(first)
    return Imported(samples, _aggregation(path), known, unread.shown())


def _sample(record: Record) -> LoggedIteration:
    kind = record.text("workload_kind")
    requests, kv = record.whole("batch_size", 1), record.whole("total_kv_read_tokens")
    latency_ms = record.duration_ms("latency_ms", "ms")
    if kind == "prefill":
        tokens = record.whole("total_prefill_tokens", 1)
        return LoggedIteration.of_totals(0, 0, tokens, kv, latency_ms, chunks=requests)
    if kind == "decode":
        if record.whole("total_prefill_tokens"):
            raise record.wrong("total_prefill_tokens", "0 in a decode pass")
        return LoggedIteration.of_totals(requests, max(1, -(-kv // requests)), 0, 0, latency_ms)
    raise record.wrong("workload_kind", "prefill or decode")


def _fingerprint(record: Record) -> Fingerprint:
    def text(column: str) -> str | None:
        value = record.values.get(column)
        return None if value in (None, "", "auto") else str(value)

    weights, cache = text("gemm_quant_mode"), text("kv_cache_dtype")
    return Fingerprint(
        device_name=text("system"),
        model_name=text("model_path"),
        dtype=weights if weights == cache or cache is None else f"{weights} weights, {cache} KV",
        tensor_parallel=record.whole("tp", 1) if "tp" in record.values else None,
        engine=text("backend"),
        engine_version=text("backend_version"),
        attention_backend=text("attention_backend"),
    )


def _aggregation(path: str) -> str:
    """By the file beside `path`, which must be of it. Raises LogFormatError."""
    beside = Path(path).with_suffix(".metadata.json")
    if not beside.exists():
        return "unknown"
    said = json_document(str(beside))
    if said.values.get("schema_name") != SCHEMA:
        raise said.wrong("schema_name", SCHEMA)
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    if said.values.get("parquet_sha256") != digest:
        raise said.wrong("parquet_sha256", f"{digest}, which {path} has")
    return POLICIES.get(said.text("measurement_policy"), "unknown")


FORMAT = LogFormat(
    read, "NVIDIA AIConfigurator's whole forward passes (fpm_forward_perf.parquet)", split="points", where=True
)
