"""The iterations of a live run, one row each: what the simulator logs, and what the clock and the table said."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...tables.lookup import TICKS_PER_MS
from ..compiled import compiled
from ..cost import OUTSIDE, Cost, bound_ticks
from ..dtypes import ITERATION
from ..loop import write_row
from ..serving_state import State

# latency_ms runs from the decision to the tokens on the host, engine_ms is the engine's call in it: what a table is
# about. bound_ms is the policy's at that moment, which a calibrator may have moved; table_bound_ms is the table's own.
LIVE_ITERATION = np.dtype(
    [
        *((name, ITERATION[name]) for name in ITERATION.names or ()),
        ("longest_context", "i4"),
        ("engine_ms", "f8"),
        ("decision_us", "f8"),
        ("expected_ms", "f8"),
        ("table_bound_ms", "f8"),
    ]
)
PAGE = 4096  # rows


@compiled
def note(row: NDArray[Any], state: State, belief: Cost, ticks: int) -> None:
    """The iteration that is over, while the state still is as it was decided on. row: ITERATION (1,)."""
    write_row(row[0], state, belief, ticks)


class IterationLog:
    """Grows by pages."""

    def __init__(self) -> None:
        self._pages: list[NDArray[Any]] = []
        self._rows = 0
        # The simulator's own row: a longer record in its place is another type to compiled functions.
        self._common = np.zeros(1, ITERATION)

    def __len__(self) -> int:
        return self._rows

    def add(self, state: State, belief: Cost, ticks: int, engine_ms: float, decision_us: float) -> NDArray[Any]:
        """The row as (1,)."""
        at = self._rows % PAGE
        if not at:
            self._pages.append(np.zeros(PAGE, LIVE_ITERATION))
        page = self._pages[-1]
        note(self._common, state, belief, ticks)
        longest = state.scalars["longest_context"][0]
        page[at] = (*self._common.item(), longest, engine_ms, decision_us, np.nan, np.nan)
        self._rows += 1
        return page[at : at + 1]

    def rows(self, expected: Cost, bound: Cost) -> NDArray[Any]:
        """LIVE_ITERATION (m,), with what the table says of each batch; nan outside of its domain."""
        rows = np.concatenate([*self._pages, np.zeros(0, LIVE_ITERATION)])[: self._rows]
        names = ("decodes", "context_tokens", "longest_context", "chunk_tokens", "prefix_tokens", "chunks")
        batches = np.stack([rows[name] for name in names], axis=1).astype(np.int64)
        for name, cost in (("expected_ms", expected), ("table_bound_ms", bound)):
            ticks = np.array([bound_ticks(cost, *batch) for batch in batches.tolist()], np.float64)
            rows[name] = np.where(ticks == OUTSIDE, np.nan, ticks / TICKS_PER_MS)
        return rows


def csv_text(rows: NDArray[Any], header: bool = True, **same: object) -> str:
    """One line a row; `same`: columns before it that all rows share."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if header:
        writer.writerow((*same, *(rows.dtype.names or ())))
    for row in rows.tolist():
        cells = (f"{value:.6g}" if isinstance(value, float) else value for value in row)
        writer.writerow((*same.values(), *cells))
    return out.getvalue()
