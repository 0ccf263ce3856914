"""What a scheduler needs of a table, and of whatever keeps a table true while an engine runs.

Protocols, so that live runs and calibrators need not know each other.
"""

from __future__ import annotations

from typing import Protocol

from .adjusted_table import AdjustedTable
from .batch import Batch


class Costs(Protocol):
    """Answers of a cost table, in ms and tokens: `CostTable` itself, or one with live factors."""

    def expected_ms(self, batch: Batch) -> float: ...

    def bound_ms(self, batch: Batch) -> float: ...

    def largest_chunk(
        self,
        decodes: int,
        context_tokens: int,
        prefix_tokens: int,
        budget_ms: float,
        max_chunk: int | None = None,
        align: int = 1,
        longest_context: int | None = None,
    ) -> int: ...


class Calibrator(Protocol):
    """Takes what the engine measures, gives the table to decide with."""

    @property
    def table(self) -> AdjustedTable:
        """The answers of this moment: immutable, so take it once per decision and ask only that. Its factor on all
        bounds is what a compiled policy takes over."""
        ...

    def observe(self, batch: Batch, latency_ms: float) -> None:
        """One iteration that ran: its batch and its wall time."""
        ...
