"""Where requests come from: laws, traces, files of lengths. Each gives rows without arrivals, targets or both.

A trace's times stay; what is nan is filled by `arrivals` and `targets`. Raised are UsageError for a file that cannot
be opened and LogFormatError naming line and column of what no request can be, arrivals out of order included.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import numpy as np

from ...files.errors import LogFormatError, UsageError
from ...files.record import LeftOut, Record
from ...files.record_files import json_lines, records_of
from ..dtypes import WORKLOAD
from .lengths import Application
from .options import WorkloadOptions
from .workload import Requests, Stream, empty_requests, stream

T = TypeVar("T")
BLOCK_TOKENS = 512  # of Mooncake's traces
# Fields of WORKLOAD; a file of requests needs prompt_tokens and output_tokens, and may have the others.
COLUMNS = tuple(WORKLOAD.names or ())


@dataclass(frozen=True, slots=True)
class Draft:
    """requests: rows that may lack arrivals and targets. notes: for `Workload.notes`."""

    requests: Requests
    notes: tuple[str, ...] = ()


Source = Callable[[WorkloadOptions, int], Draft]


def laws(parts: Sequence[Application]) -> Source:
    """Draws from the laws of `parts`; each is an application."""

    def draw(options: WorkloadOptions, seed: int) -> Draft:
        count = _needed(options)
        requests = empty_requests(count)
        edges = np.cumsum([part.share for part in parts])[:-1]
        requests["application"] = np.searchsorted(edges, stream(seed, Stream.APPLICATION).random(count), side="right")
        prompt = stream(seed, Stream.PROMPT).standard_normal(count)
        output = stream(seed, Stream.OUTPUT).standard_normal(count)
        for application, part in enumerate(parts):
            here = requests["application"] == application
            requests["prompt_tokens"][here] = part.prompt.tokens(prompt[here])
            requests["output_tokens"][here] = part.output.tokens(output[here])
        return Draft(requests)

    return draw


def drawn_lengths(options: WorkloadOptions, seed: int) -> Draft:
    """Pairs of num_prefill_tokens and num_decode_tokens, drawn with replacement."""
    records, notes = _records(options)
    pairs = [(row.whole("num_prefill_tokens", 1), row.whole("num_decode_tokens", 1)) for row in records]
    drawn = stream(seed, Stream.PROMPT).integers(len(_some(pairs, options)), size=_needed(options))
    requests = empty_requests(len(drawn))
    requests["prompt_tokens"], requests["output_tokens"] = np.asarray(pairs)[drawn].T
    return Draft(requests, notes())


def azure(options: WorkloadOptions, seed: int) -> Draft:
    """Azure's LLM inference traces: TIMESTAMP, ContextTokens, GeneratedTokens."""
    records, notes = _records(options)
    rows: list[tuple[float, int, int]] = []
    start: datetime | None = None
    for row in records:
        text = row.text("TIMESTAMP")
        try:
            at = datetime.fromisoformat(text)
            start = start or at
            arrival_ms = (at - start).total_seconds() * 1000
        except (ValueError, TypeError) as error:  # TypeError: only one of the two has a time zone
            raise row.wrong("TIMESTAMP", "a time such as 2023-11-16 18:17:03.9799600") from error
        _in_order(row, "TIMESTAMP", arrival_ms, rows[-1][0] if rows else 0.0)
        rows.append((arrival_ms, row.whole("ContextTokens", 1), row.whole("GeneratedTokens", 1)))
        if len(rows) == options.requests:
            break
    requests = empty_requests(len(_some(rows, options)))
    for name, column in zip(("arrival_ms", "prompt_tokens", "output_tokens"), zip(*rows, strict=True), strict=True):
        requests[name] = column
    return Draft(requests, notes())


class PrefixCache:
    """Least recently used blocks out first. A prompt's blocks are there for whoever arrives after it.

    That is the most a cache can give: in a run a block is there once it has been computed.
    """

    def __init__(self, capacity_tokens: int) -> None:
        self._blocks = capacity_tokens // BLOCK_TOKENS
        self._kept: OrderedDict[int, None] = OrderedDict()

    def hit_tokens(self, blocks: Iterable[int]) -> int:
        """Tokens of the leading blocks that are kept; then the prompt's blocks are the most recent ones."""
        prompt = list(blocks)
        hits = next((i for i, block in enumerate(prompt) if block not in self._kept), len(prompt))
        for block in reversed(prompt):  # the last block goes first: without its prefix it is of no use
            self._kept[block] = None
            self._kept.move_to_end(block)
        while len(self._kept) > self._blocks:
            self._kept.popitem(last=False)
        return hits * BLOCK_TOKENS


def mooncake(options: WorkloadOptions, seed: int) -> Draft:
    """Mooncake's traces: timestamp in ms, input_length, output_length, hash_ids of blocks of 512 tokens."""
    left_out, cache = LeftOut(), PrefixCache(options.cache)
    rows: list[tuple[float, int, int, int]] = []
    for row in json_lines(_file(options), left_out):
        arrival_ms = row.number("timestamp", 0)
        _in_order(row, "timestamp", arrival_ms, rows[-1][0] if rows else 0.0)
        prompt = row.whole("input_length", 1)
        blocks = row.items("hash_ids")
        if not all(type(block) is int for block in blocks):
            raise row.wrong("hash_ids", "whole numbers")
        cached = min(cache.hit_tokens(blocks), prompt - 1)
        rows.append((arrival_ms, prompt, cached, row.whole("output_length", 1)))
        if len(rows) == options.requests:
            break
    requests = empty_requests(len(_some(rows, options)))
    fields = ("arrival_ms", "prompt_tokens", "cached_tokens", "output_tokens")
    for name, column in zip(fields, zip(*rows, strict=True), strict=True):
        requests[name] = column
    prompts = int(requests["prompt_tokens"].sum(dtype=np.int64))
    share = int(requests["cached_tokens"].sum(dtype=np.int64)) / prompts
    hits = f"prefix cache of {options.cache:,} tokens: {100 * share:.1f}% of the prompt tokens hit"
    return Draft(requests, (hits, *left_out.lines()))


def own(options: WorkloadOptions, seed: int) -> Draft:
    """A file whose columns are fields of WORKLOAD; empty cells and missing columns are not said."""
    records, notes = _records(options)
    said: list[dict[str, float]] = []
    for row in records:
        odd = set(row.values) - set(COLUMNS)
        if odd:
            raise LogFormatError(
                f"{row.source}: {row.place}: column {', '.join(sorted(odd))} is unknown; expected some of "
                f"{', '.join(COLUMNS)}: rename or remove it"
            )
        values = {name: _field(row, name) for name in COLUMNS if _is_said(row, name)}
        if "arrival_ms" in values:
            _in_order(row, "arrival_ms", values["arrival_ms"], said[-1].get("arrival_ms", 0.0) if said else 0.0)
        if said and ("arrival_ms" in values) != ("arrival_ms" in said[0]):
            raise row.wrong("arrival_ms", "a time in every row or in none")
        said.append(values)
        if len(said) == options.requests:
            break
    requests = empty_requests(len(_some(said, options)))
    for name in COLUMNS:
        unsaid = requests[name][0].item()
        requests[name] = [values.get(name, unsaid) for values in said]
    return Draft(requests, notes())


def _field(row: Record, name: str) -> float:
    if name.endswith("_ms"):
        return row.number(name, 0)
    value = row.whole(name, 1 if name in ("prompt_tokens", "output_tokens", "output_estimate") else 0)
    if value > np.iinfo(WORKLOAD[name]).max:
        raise row.wrong(name, f"at most {np.iinfo(WORKLOAD[name]).max}")
    return value


def _is_said(row: Record, name: str) -> bool:
    return name in ("prompt_tokens", "output_tokens") or row.values.get(name) not in (None, "")


def _in_order(row: Record, column: str, arrival_ms: float, before_ms: float) -> None:
    if arrival_ms < before_ms:
        raise row.wrong(column, f"rows in order of arrival, {before_ms - arrival_ms:g} ms later or more")


def _needed(options: WorkloadOptions) -> int:
    if options.requests is None:
        raise UsageError("workload: requests is not said; expected how many, such as requests=1000")
    return options.requests


def _file(options: WorkloadOptions) -> str:
    if options.file is None:
        raise UsageError("workload: file is not said; expected the path of the trace, file=PATH")
    return options.file


def _records(options: WorkloadOptions) -> tuple[Iterator[Record], Callable[[], tuple[str, ...]]]:
    """Rows of the file, and what was left out once they are read."""
    left_out = LeftOut()
    return records_of(_file(options), left_out), lambda: tuple(left_out.lines())


def _some(rows: Sequence[T], options: WorkloadOptions) -> Sequence[T]:
    if not rows:
        raise LogFormatError(f"{options.file}: no row; expected at least one request")
    return rows
