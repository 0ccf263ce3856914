"""The columns of a profile, what a row must satisfy, and the text of the column `layout`.

A layout says how the totals of a batch are spread over its requests. `4096,31x256|128@0,64@512`: contexts of the
decodes, then chunks as tokens@prefix; `31x256` are 31 decodes of 256. The empty text stands for the usual batch: equal
contexts and at most one chunk.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import groupby
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..files.errors import ProfileFormatError
from ..tables.batch import AXES, Batch
from ..tables.grid import scene_of

Columns = dict[str, NDArray[Any]]

# Batches of the last two roles come in pairs of equal totals: the usual batch and one with a layout.
Role = Literal["point", "anchor", "sentinel", "unequal", "chunks"]
ROLES: tuple[Role, ...] = get_args(Role)
PAIRED: tuple[Role, ...] = ("unequal", "chunks")
# One row per timed iteration. Strings are NumPy unicode arrays; event_ms NaN means unknown.
COLUMNS: dict[str, type] = {
    "session": np.str_,
    "role": np.str_,
    "scene": np.str_,
    "point_id": np.int64,
    "repeat": np.int64,  # 0, 1, ... within the point
    "order": np.int64,  # place in the session, sentinels counted
    "decodes": np.int64,
    "context_tokens": np.int64,
    "chunk_tokens": np.int64,
    "prefix_tokens": np.int64,
    "layout": np.str_,  # empty: equal contexts and at most one chunk
    "latency_ms": np.float64,
    "event_ms": np.float64,
    "flagged": np.bool_,  # measured while the device throttled
    "tries": np.int64,  # times the point was measured; the rows are of the last
    # Of the device right after the point; NaN means unknown.
    "sm_clock_mhz": np.float64,
    "memory_clock_mhz": np.float64,
    "temperature_c": np.float64,
    "power_w": np.float64,
    "throttle": np.str_,  # unknown, none, or reasons joined by commas
    "started_s": np.float64,  # of the point, since the sweep began
}
_STATE = ("sm_clock_mhz", "memory_clock_mhz", "temperature_c", "power_w")
_FROM_ZERO = ("point_id", "repeat", "order", "decodes", "context_tokens", "chunk_tokens", "prefix_tokens")


def check_rows(columns: Mapping[str, NDArray[Any]], where: str) -> Columns:
    """The columns in their order and types. `where` names the file or source in messages.

    Raises ProfileFormatError naming the column, or the first bad row (counted from 0) and its values:
    a missing or unknown column, unequal lengths, a wrong type, a latency that is not a finite number
    above 0, a negative count, a decode without context, an empty batch, a scene or layout that does not fit.
    """
    missing = [name for name in COLUMNS if name not in columns]
    unknown = [name for name in columns if name not in COLUMNS]
    if missing or unknown:
        raise ProfileFormatError(
            f"{where}: columns missing: {missing or 'none'}, unknown: {unknown or 'none'}; expected exactly "
            f"{', '.join(COLUMNS)}"
        )
    checked: Columns = {}
    for name, kind in COLUMNS.items():
        values = np.asarray(columns[name])
        if values.ndim != 1 or len(values) != len(columns["session"]):
            raise ProfileFormatError(
                f"{where}: column {name} has shape {values.shape}; expected ({len(columns['session'])},)"
            )
        if len(values) and not np.issubdtype(values.dtype, kind):
            raise ProfileFormatError(f"{where}: column {name} holds {values.dtype}; expected {np.dtype(kind).name}")
        checked[name] = values.astype(kind, copy=False)
    _check_values(checked, where)
    return checked


def _check_values(columns: Columns, where: str) -> None:
    n, k = columns["decodes"], columns["context_tokens"]
    c, u = columns["chunk_tokens"], columns["prefix_tokens"]
    latency, event = columns["latency_ms"], columns["event_ms"]
    rules: list[tuple[NDArray[np.bool_], str, str]] = [
        (~(np.isfinite(latency) & (latency > 0)), "latency_ms", "a finite number of ms above 0"),
        (~(np.isnan(event) | (np.isfinite(event) & (event > 0))), "event_ms", "NaN (unknown) or above 0"),
        *[(columns[name] < 0, name, "0 or more") for name in _FROM_ZERO],
        *[((columns[name] < 0) | np.isinf(columns[name]), name, "NaN (unknown) or 0 and more") for name in _STATE],
        (columns["tries"] < 1, "tries", "1 or more"),
        (columns["throttle"] == "", "throttle", "unknown, none or reasons"),
        ((n > 0) & (k < 1), "context_tokens", "at least 1, a decode reads its own token"),
        ((n == 0) & (c == 0), "decodes", "a decode or a chunk token"),
        (((n == 0) & (k > 0)) | ((c == 0) & (u > 0)), "prefix_tokens", "no context or prefix without work"),
        (scene_of(np.column_stack([n, k, c, u])) != columns["scene"], "scene", "the scene of n and c"),
        (~np.isin(columns["role"], ROLES), "role", f"one of {', '.join(ROLES)}"),
        (columns["session"] == "", "session", "a session name"),
        (~np.isfinite(columns["started_s"]), "started_s", "a finite number of seconds"),
        (_wrong_layouts(columns), "layout", "one of the row's totals, and empty unless the row is of a pair"),
    ]
    for broken, name, expected in rules:
        if broken.any():
            row = int(np.argmax(broken))
            raise ProfileFormatError(
                f"{where}: row {row} (session {columns['session'][row]}, point {columns['point_id'][row]}, "
                f"n {n[row]}, k {k[row]}, c {c[row]}, u {u[row]}): {name} = {columns[name][row]}; expected "
                f"{expected}: remove the row or measure it again"
            )


def _wrong_layouts(columns: Columns) -> NDArray[np.bool_]:
    wrong: NDArray[np.bool_] = (columns["layout"] != "") & ~np.isin(columns["role"], PAIRED)
    for row in np.flatnonzero((columns["layout"] != "") & ~wrong).tolist():
        try:
            batch_of(str(columns["layout"][row]), *(int(columns[name][row]) for name in AXES))
        except ValueError:
            wrong[row] = True
    return wrong


_NUMBER = r"[1-9][0-9]*"
_CONTEXT = rf"(?:{_NUMBER}x)?{_NUMBER}"
_CHUNK = rf"{_NUMBER}@(?:0|{_NUMBER})"
_LAYOUT = re.compile(rf"((?:{_CONTEXT}(?:,{_CONTEXT})*)?)\|((?:{_CHUNK}(?:,{_CHUNK})*)?)")


def layout_of(batch: Batch) -> str:
    """The text of a batch; empty where its totals say all of it.

    >>> layout_of(Batch.with_chunks([4096, 256, 256], [(128, 0)]))
    '4096,2x256|128@0'
    """
    if batch == Batch.of(*batch.point()):
        return ""
    runs = [(context, len(list(run))) for context, run in groupby(batch.decode_contexts)]
    contexts = ",".join(str(context) if count == 1 else f"{count}x{context}" for context, count in runs)
    return contexts + "|" + ",".join(f"{chunk.chunk_tokens}@{chunk.prefix_tokens}" for chunk in batch.chunks)


def batch_of(layout: str, n: int, k: int, c: int, u: int) -> Batch:
    """The batch of a layout, whose totals must be the n decodes of mean context k, c and u given.

    Raises ValueError for a text that `layout_of` does not write, or one of other totals.
    """
    if not layout:
        return Batch.of(n, k, c, u)
    found = _LAYOUT.fullmatch(layout)
    if found is None:
        raise ValueError(f"layout {layout!r}; expected contexts|chunks such as 4096,31x256|128@0,64@512")
    contexts: list[int] = []
    for text in filter(None, found[1].split(",")):
        count, _, context = text.rpartition("x")
        if int(count or 1) > n:
            raise ValueError(f"layout {layout!r} has more than n = {n} decodes")
        contexts += [int(context)] * int(count or 1)
    chunks = [(int(tokens), int(prefix)) for tokens, _, prefix in (t.partition("@") for t in found[2].split(",") if t)]
    if (len(contexts), sum(contexts), sum(t for t, _ in chunks), sum(p for _, p in chunks)) != (n, n * k, c, u):
        raise ValueError(f"layout {layout!r} is not of n {n}, k {k}, c {c}, u {u}; expected the same totals")
    batch = Batch.with_chunks(contexts, chunks)
    if layout_of(batch) != layout:
        raise ValueError(f"layout {layout!r}; expected {layout_of(batch)!r}, the one way to write it")
    return batch
