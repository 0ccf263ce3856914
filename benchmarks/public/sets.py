"""The public measurements as rows (n, k, c, u, latency), read by the importers where there is a format for them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chunkfit.fitters.rows import Rows
from chunkfit.profiler.importers.registry import log_format
from chunkfit.profiler.importers.samples import LoggedIteration, ReadOptions, SkippedRows
from chunkfit.profiler.importers.samples import Split as SampleSplit
from chunkfit.profiler.importers.sessions import domain_of
from chunkfit.tables.domain import Domain

ATTENTION = "llmservingsim/RTXPRO6000-Llama-3.1-8B-bf16-tp1/attention.csv"
LIVE = "rucnyz-vllm/h200_qwen3_8b_live_first3000.json"
SPLITWISE = "splitwise-sim/perf_model_a100.csv"
# The live log says no contexts and no prefixes. One value for all of them carries nothing, whatever it is.
LIVE_SAYS = ReadOptions({"k": "1", "u": "0"})


@dataclass(frozen=True, slots=True)
class DataSet:
    """One table's worth of rows. group: the line of the result it belongs to; domain: the box of its batches."""

    name: str
    group: str
    rows: Rows
    domain: Domain
    aggregation: str


def load(folder: Path, *, quick: bool = False) -> list[DataSet]:
    """All data sets under `folder`, the public data's `measurements`. quick: the small ones alone."""
    names = ("results",) if quick else ("results", "results2", "results3")
    sets = [
        _imported(f"rucnyz-{n}", "rucnyz", "rucnyz", folder / f"rucnyz-vllm/{n}.json", ReadOptions()) for n in names
    ]
    if not quick:
        sets.append(_imported("attention", "attention", "llmservingsim", folder / ATTENTION, ReadOptions()))
    sets.append(_imported("live", "live", "rucnyz-live", folder / LIVE, LIVE_SAYS))
    return sets + _splitwise(folder / SPLITWISE)


def made_of(
    name: str, group: str, samples: Sequence[LoggedIteration], aggregation: str, split: SampleSplit = "points"
) -> DataSet:
    """Rows of one batch (n, k, c, u) are one point; in a log by time every row is one, as `chunkfit ingest` has it."""
    points = np.asarray([(s.n, s.k, s.c, s.u) for s in samples], dtype=np.int64)
    _, ids = np.unique(points, axis=0, return_inverse=True) if split == "points" else (None, np.arange(len(points)))
    latency_ms = np.asarray([sample.latency_ms for sample in samples])
    rows = Rows(points, latency_ms, ids.ravel().astype(np.int64), np.zeros(len(points), dtype=np.bool_))
    return DataSet(name, group, rows, domain_of(samples), aggregation)


def _imported(name: str, group: str, form: str, path: Path, options: ReadOptions) -> DataSet:
    format_ = log_format(form, options)
    found = format_.read(str(path), options, SkippedRows())
    return made_of(name, group, found.samples, found.aggregation, format_.split)


def _splitwise(path: Path) -> list[DataSet]:
    """A table for each model and tensor parallel degree, of prompt and of token times.

    Prompt: `batch_size` prompts as n, `prompt_size` as k. As one chunk of their product two prompts of 512 and one
    of 1024 would be the same batch, which they are not. Token: the mean over `token_size` steps, so k is the context
    at their middle.
    """
    with path.open(newline="") as file:
        records = list(csv.DictReader(file))
    sets = []
    for model, degree in sorted({(r["model"], r["tensor_parallel"]) for r in records}):
        mine = [r for r in records if (r["model"], r["tensor_parallel"]) == (model, degree)]
        for phase in ("prompt", "token"):
            samples = []
            for r in mine:
                k = int(r["prompt_size"]) + (int(r["token_size"]) // 2 if phase == "token" else 0)
                samples.append(LoggedIteration.of_totals(int(r["batch_size"]), k, 0, 0, float(r[f"{phase}_time"])))
            name = f"splitwise-{phase}-{model}-tp{degree}"
            sets.append(
                made_of(
                    name, f"splitwise {phase}", samples, "iteration" if phase == "prompt" else "mean over a request"
                )
            )
    return sets
