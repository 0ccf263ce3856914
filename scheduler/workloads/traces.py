"""Sources of requests: laws, files of lengths, recorded traces. Their rows may lack arrivals, targets or both.

Times of a trace stay. `registry` draws missing arrivals, `request_targets` fills missing targets. A file that cannot be
opened raises UsageError; an impossible value or a late arrival raises LogFormatError with line and column.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from ...files.errors import LogFormatError, UsageError
from ...files.records import Record, SkippedRows, json_lines, records_of
from ..dtypes import WORKLOAD
from .laws import Application
from .workload import Requests, Stream, empty_requests, stream
from .workload_options import WorkloadOptions

BLOCK_TOKENS = 512  # of Mooncake's traces
REQUIRED = ("prompt_tokens", "output_tokens")  # of a file of requests, which may have the other columns too
COLUMNS = WORKLOAD.names or ()


@dataclass(frozen=True, slots=True)
class Draft:
    """requests: rows that may lack arrivals and targets. notes: for `Workload.notes`."""

    requests: Requests
    notes: tuple[str, ...] = ()


Source = Callable[[WorkloadOptions, int], Draft]


def mix(applications: Sequence[Application]) -> Source:
    """Requests drawn from the laws of a mix of applications."""

    def draw(options: WorkloadOptions, seed: int) -> Draft:
        count = _count(options)
        requests = empty_requests(count)
        edges = np.cumsum([each.share for each in applications])[:-1]
        requests["application"] = np.searchsorted(edges, stream(seed, Stream.APPLICATION).random(count), side="right")
        prompt = stream(seed, Stream.PROMPT).standard_normal(count)
        output = stream(seed, Stream.OUTPUT).standard_normal(count)
        for number, application in enumerate(applications):
            here = requests["application"] == number
            requests["prompt_tokens"][here] = application.prompt.tokens(prompt[here])
            requests["output_tokens"][here] = application.output.tokens(output[here])
        return Draft(requests)

    return draw


def drawn_lengths(options: WorkloadOptions, seed: int) -> Draft:
    """Pairs of num_prefill_tokens and num_decode_tokens, drawn with replacement."""
    left_out = SkippedRows()
    pairs = [
        (record.whole("num_prefill_tokens", 1), record.whole("num_decode_tokens", 1))
        for record in records_of(_file(options), left_out)
    ]
    if not pairs:
        raise _no_row(options)
    drawn = stream(seed, Stream.PROMPT).integers(len(pairs), size=_count(options))
    requests = empty_requests(len(drawn))
    requests["prompt_tokens"], requests["output_tokens"] = np.asarray(pairs)[drawn].T
    return Draft(requests, tuple(left_out.lines()))


def azure(options: WorkloadOptions, seed: int) -> Draft:
    """Azure's LLM inference traces: TIMESTAMP, ContextTokens, GeneratedTokens."""
    left_out = SkippedRows()
    start: datetime | None = None

    def read(record: Record) -> dict[str, float]:
        nonlocal start
        try:
            time = datetime.fromisoformat(record.text("TIMESTAMP"))
            start = start or time
            arrival_ms = (time - start).total_seconds() * 1000
        except (ValueError, TypeError) as error:  # TypeError: only one of the two has a time zone
            raise record.wrong("TIMESTAMP", "a time such as 2023-11-16 18:17:03.9799600") from error
        prompt, output = record.whole("ContextTokens", 1), record.whole("GeneratedTokens", 1)
        return {"arrival_ms": arrival_ms, "prompt_tokens": prompt, "output_tokens": output}

    requests = _read(records_of(_file(options), left_out), read, "TIMESTAMP", options)
    return Draft(requests, tuple(left_out.lines()))


class PrefixCache:
    """Blocks of prompts, the least recently used ones evicted first.

    A prompt's blocks are cached from its arrival on. That is an upper bound of the hits: in a run a block is cached
    once it is computed.
    """

    def __init__(self, capacity_tokens: int) -> None:
        self._blocks = capacity_tokens // BLOCK_TOKENS
        self._kept: OrderedDict[int, None] = OrderedDict()

    def hit_tokens(self, blocks: Iterable[int]) -> int:
        """Tokens of the leading blocks that are cached; afterwards the prompt's blocks are the most recent ones."""
        prompt = list(blocks)
        hits = next((i for i, block in enumerate(prompt) if block not in self._kept), len(prompt))
        for block in reversed(prompt):  # the last block is evicted first: it is of no use without its prefix
            self._kept[block] = None
            self._kept.move_to_end(block)
        while len(self._kept) > self._blocks:
            self._kept.popitem(last=False)
        return hits * BLOCK_TOKENS


def mooncake(options: WorkloadOptions, seed: int) -> Draft:
    """Mooncake's traces: timestamp in ms, input_length, output_length, hash_ids of blocks of 512 tokens."""
    left_out, cache = SkippedRows(), PrefixCache(options.cache)

    def read(record: Record) -> dict[str, float]:
        prompt, blocks = record.whole("input_length", 1), record.items("hash_ids")
        if not all(type(block) is int for block in blocks):
            raise record.wrong("hash_ids", "whole numbers")
        return {
            "arrival_ms": record.number("timestamp", 0),
            "prompt_tokens": prompt,
            "cached_tokens": min(cache.hit_tokens(blocks), prompt - 1),
            "output_tokens": record.whole("output_length", 1),
        }

    requests = _read(json_lines(_file(options), left_out), read, "timestamp", options)
    prompts = int(requests["prompt_tokens"].sum(dtype=np.int64))
    share = int(requests["cached_tokens"].sum(dtype=np.int64)) / prompts
    hits = f"prefix cache of {options.cache:,} tokens: {100 * share:.1f}% of the prompt tokens hit"
    return Draft(requests, (hits, *left_out.lines()))


def requests_file(options: WorkloadOptions, seed: int) -> Draft:
    """A file whose columns are fields of WORKLOAD. Empty cells and missing columns are filled later."""
    left_out = SkippedRows()
    timed: bool | None = None

    def read(record: Record) -> dict[str, float]:
        nonlocal timed
        unknown = set(record.values) - set(COLUMNS)
        if unknown:
            raise LogFormatError(
                f"{record.source}: {record.place}: column {', '.join(sorted(unknown))} is unknown; expected some of "
                f"{', '.join(COLUMNS)}: rename or remove it"
            )
        row = {
            name: _field(record, name)
            for name in COLUMNS
            if name in REQUIRED or record.values.get(name) not in (None, "")
        }
        if timed not in (None, "arrival_ms" in row):
            raise record.wrong("arrival_ms", "a time in every row or in none")
        timed = "arrival_ms" in row
        return row

    requests = _read(records_of(_file(options), left_out), read, "arrival_ms", options)
    return Draft(requests, tuple(left_out.lines()))


def _field(record: Record, name: str) -> float:
    if name.endswith("_ms"):
        return record.number(name, 0)
    value = record.whole(name, 1 if name in (*REQUIRED, "output_estimate") else 0)
    if value > np.iinfo(WORKLOAD[name]).max:
        raise record.wrong(name, f"at most {np.iinfo(WORKLOAD[name]).max}")
    return value


def _read(
    records: Iterable[Record], read: Callable[[Record], Mapping[str, float]], column: str, options: WorkloadOptions
) -> Requests:
    """The first `options.requests` rows, in order of the arrival in `column`. read: fields of WORKLOAD of a record."""
    rows: list[Mapping[str, float]] = []
    before_ms = 0.0
    for record in records:
        row = read(record)
        arrival_ms = row.get("arrival_ms", before_ms)
        if arrival_ms < before_ms:
            raise record.wrong(column, f"rows in order of arrival, {before_ms - arrival_ms:g} ms later or more")
        before_ms = arrival_ms
        rows.append(row)
        if len(rows) == options.requests:
            break
    if not rows:
        raise _no_row(options)
    requests = empty_requests(len(rows))
    for name in COLUMNS:
        missing = requests[name][0].item()
        requests[name] = [row.get(name, missing) for row in rows]
    return requests


def _count(options: WorkloadOptions) -> int:
    if options.requests is None:
        raise UsageError("workload: requests is not given; expected how many, such as requests=1000")
    return options.requests


def _file(options: WorkloadOptions) -> str:
    if options.file is None:
        raise UsageError("workload: file is not given; expected the path of the trace, file=PATH")
    return options.file


def _no_row(options: WorkloadOptions) -> LogFormatError:
    return LogFormatError(f"{options.file}: no row; expected at least one request")
