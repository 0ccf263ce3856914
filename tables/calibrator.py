"""What a live run asks of a calibrator, so that the two need not know each other."""

from __future__ import annotations

from typing import Protocol

from .batch import Batch
from .cost_table import CostTable


class Calibrator(Protocol):
    """Takes what the engine measures, gives the table to decide with."""

    @property
    def table(self) -> CostTable:
        """The table of this moment, scaled and immutable: take it once per decision and ask only that."""
        ...

    def observe(self, batch: Batch, latency_ms: float) -> None:
        """One iteration that ran.

        Args:
            batch: what it computed.
            latency_ms: its wall time.
        """
        ...
