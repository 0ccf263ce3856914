"""The columns of a profile and what a row must satisfy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..files.errors import ProfileFormatError
from ..tables.batch import AXES
from ..tables.grid import scene_of
from .layout import batch_of

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
    "layout": np.str_,  # empty: equal contexts and at most one chunk; else see layout.py
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
