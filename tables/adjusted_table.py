"""A cost table with live factors: the same answers, one multiplication further, no node rebuilt."""

from __future__ import annotations

from dataclasses import dataclass

from ..files.errors import UsageError
from .batch import Batch
from .cost_table import CostTable
from .fixed_point import budget_ticks, raised
from .lookup import TICKS_PER_MS, WEIGHT_ONE


@dataclass(frozen=True, slots=True)
class AdjustedTable:
    """`table` with its bounds and expected times raised or lowered by a factor each, in 1/4096.

    A factor is the same for all scenes: whole bounds are multiplied and rounded up once, which is monotone,
    so every pair of batches that was in order stays in order, also where two scenes meet. (A factor per scene
    keeps the seams only while that of mixed batches is the largest of the three.)
    Immutable: reading from several threads is safe, and a calibrator swaps it by one assignment.
    Raises UsageError for a factor below 1/4096.
    """

    table: CostTable
    bound_factor: int = WEIGHT_ONE
    expected_factor: int = WEIGHT_ONE

    def __post_init__(self) -> None:
        if self.bound_factor < 1 or self.expected_factor < 1:
            raise UsageError(
                f"AdjustedTable: bound_factor {self.bound_factor}, expected_factor {self.expected_factor}; expected "
                f"whole numbers of 1/{WEIGHT_ONE}, at least 1"
            )

    def expected_ms(self, batch: Batch) -> float:
        """Median time of one iteration, never above `bound_ms`. Raises OutOfDomainError as the table does.

        The smaller of two non-decreasing answers is non-decreasing itself.
        """
        expected = _scaled(self.table.expected_ms(batch), self.expected_factor)
        if self.expected_factor <= self.bound_factor:
            return expected
        return min(expected, self.bound_ms(batch))

    def bound_ms(self, batch: Batch) -> float:
        """Upper bound, times the factor. Raises OutOfDomainError as the table does."""
        return self.scaled_bound_ms(self.table.bound_ms(batch))

    def scaled_bound_ms(self, bound_ms: float) -> float:
        """`bound_ms` of a batch whose bound in `table` is known already."""
        return _scaled(bound_ms, self.bound_factor)

    def largest_chunk(
        self,
        decodes: int,
        context_tokens: int,
        prefix_tokens: int,
        budget_ms: float,
        max_chunk: int | None = None,
        align: int = 1,
        longest_context: int | None = None,
    ) -> int:
        """As `CostTable.largest_chunk`, under this bound, and as exact.

        In ticks, with whole numbers: factor U / 4096 rounded up is within the budget if and only if U is within
        4096 budget / factor rounded down, so the table is asked with that budget.
        """
        if budget_ms == budget_ms:  # NaN goes through: the table refuses it
            budget_ms = budget_ticks(budget_ms) * WEIGHT_ONE // self.bound_factor / TICKS_PER_MS
        return self.table.largest_chunk(
            decodes, context_tokens, prefix_tokens, budget_ms, max_chunk, align, longest_context
        )


def _scaled(ms: float, factor: int) -> float:
    # Exact both ways: a table's answers are whole ticks, and a tick is a power of two.
    return raised(int(ms * TICKS_PER_MS), factor) / TICKS_PER_MS
