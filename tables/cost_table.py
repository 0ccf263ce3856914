"""The cost table that a scheduler asks: expected time, bound, largest chunk within a budget."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..files.errors import OutOfDomainError, TableFormatError, UsageError
from . import document
from .arrays import TableArrays, axes_document, list_scenes, scenes_document, support_document
from .batch import Batch, Point
from .check import order_findings
from .domain import Domain
from .fingerprint import Fingerprint
from .grid import Points, Ticks, budget_ticks, to_ms, weight_of
from .largest_chunk import largest_chunk
from .lookup import MEASURED, OUTSIDE, TICKS_PER_MS, WEIGHT_ONE, FlatTable, bound_ticks, boxes_above, raised, ticks
from .schema_v1 import TableV1
from .support import SupportKind


class CostTable:
    """T(n, k, c, u) of one device, model and engine, with a bound that holds at its certified coverage.

    The bound never falls as a batch gains work (tables/closure.py), so `largest_chunk` is exact.
    Immutable: reading from several threads is safe.

    Attributes:
        document: the table file's model.
        domain: what was measured.
        fingerprint: on what it was measured.
        arrays: the nodes, for many points at once.
        expected, bound: the two surfaces as `lookup` reads them.
    """

    def __init__(self, table: TableV1, where: str = "table") -> None:
        """From a document.

        Args:
            table: the document.
            where: its source, for messages.

        Raises:
            TableFormatError: the order of the bounds is broken.
        """
        self.document = table
        self.domain: Domain = table.domain
        self.fingerprint: Fingerprint = table.fingerprint
        self.arrays: TableArrays = TableArrays.of(table)
        findings = order_findings(self.arrays)
        if findings:
            more = f" (and {len(findings) - 1} more)" if findings[1:] else ""
            raise TableFormatError(f"{where}: {findings[0]}{more}")
        factors = table.factors
        self.expected: FlatTable = self.arrays.flat(self.arrays.expected, WEIGHT_ONE, WEIGHT_ONE)
        self.bound: FlatTable = self.arrays.flat(
            self.arrays.bound, weight_of(factors.unequal_contexts), weight_of(factors.several_chunks)
        )

    @classmethod
    def load(cls, path: str | PathLike[str]) -> CostTable:
        """Read a table file.

        Raises:
            TableFormatError: the file is not exactly what was written.
        """
        table, stale = document.read(path)
        if stale is not None:
            raise TableFormatError(f"{path}: {stale}")
        return cls(table, str(path))

    @classmethod
    def of(cls, arrays: TableArrays, **fields: Any) -> CostTable:
        """A new table.

        Args:
            arrays: its nodes.
            fields: of the document `TableV1`: fingerprint, fitter, margin, certificate and so on.

        Raises:
            TableFormatError: the order of the bounds is broken.
        """
        nodes = {
            "domain": arrays.domain,
            "axes": axes_document(arrays.axes),
            "scenes": scenes_document(arrays),
            "support": None if arrays.support is None else support_document(arrays.support),
        }
        return cls(document.new_table(**nodes, **fields), "new table")

    def save(self, path: str | PathLike[str]) -> None:
        """Write the table file, whole or not at all.

        Raises:
            StorageError: the file cannot be written.
            UsageError: the table is scaled; its file has no place for such a factor.
        """
        if (self.expected.factor, self.bound.factor) != (WEIGHT_ONE, WEIGHT_ONE):
            raise UsageError(
                "save: this table is scaled; expected the table itself: save the calibrator's state instead"
            )
        document.write(self.document, path)

    def scaled(self, bound_factor: int, expected_factor: int) -> CostTable:
        """The same table with all bounds and all expected times times a factor each, in place of earlier ones.

        A factor is the same for all scenes. Whole bounds are multiplied and rounded up once, which is monotone. So each
        pair of batches that was in order stays in order, also where two scenes meet. (A factor per scene keeps that
        order only while the factor of mixed batches is the largest of the three.)

        Args:
            bound_factor: whole number of 1/4096, at least 1.
            expected_factor: whole number of 1/4096, at least 1.

        Raises:
            UsageError: a factor is below 1/4096.
        """
        if bound_factor < 1 or expected_factor < 1:
            raise UsageError(
                f"scaled: bound_factor {bound_factor}, expected_factor {expected_factor}; expected whole numbers of "
                f"1/{WEIGHT_ONE}, at least 1"
            )
        other = object.__new__(CostTable)
        other.__dict__.update(self.__dict__)  # copy.copy takes 6 us of an engine's loop
        other.bound = self.bound.with_factor(bound_factor)
        other.expected = self.expected.with_factor(expected_factor)
        return other

    def expected_ms(self, batch: Batch) -> float:
        """Median time of one iteration, of equal contexts and one chunk of the batch's totals; at most `bound_ms`.

        Raises:
            OutOfDomainError: the batch lies outside what was measured.
        """
        # The smaller of two non-decreasing answers is non-decreasing itself.
        if self.expected.factor > self.bound.factor:
            return self.both_ms(batch)[0]
        return self._ticks(batch, self.expected)[0] / TICKS_PER_MS

    def bound_ms(self, batch: Batch) -> float:
        """Upper bound U with P(T <= U) >= the certified coverage, which is of equal contexts and one chunk.

        Unequal contexts: the bound at their mean times the measured factor, or the bound with every context
        the longest where that is less. Several chunks: times their measured factor. Where a factor was not
        measured it is 1.

        Without the "or" the bound would fall where the last short decode grows to the length of the others
        and its batch becomes an equal one: more work for less time.

        Raises:
            OutOfDomainError: the batch lies outside what was measured.
        """
        return self._ticks(batch, self.bound)[0] / TICKS_PER_MS

    def both_ms(self, batch: Batch) -> tuple[float, float]:
        """(expected_ms, bound_ms) with the batch summed once. Raises OutOfDomainError outside."""
        expected, bound = self._ticks(batch, self.expected, self.bound)
        return min(expected, bound) / TICKS_PER_MS, bound / TICKS_PER_MS

    def support(self, batch: Batch) -> SupportKind:
        """What the answer for a batch rests on: batches like it, measured batches with more work, or nothing.

        The kind of the batch's totals, as the table reads them: contexts at their mean, chunks as one.

        Raises:
            OutOfDomainError: the batch lies outside the domain.
        """
        self.domain.require(batch)
        return self.support_of(batch.point())

    def support_of(self, point: Point) -> SupportKind:
        """`support` of a point inside the domain."""
        support = self.bound.head[0].support
        if support == OUTSIDE:
            return SupportKind.MEASURED if point.scene in self.arrays.ladders else SupportKind.UNKNOWN
        if boxes_above(self.bound.nodes, support, *point) == MEASURED:
            return SupportKind.MEASURED
        return SupportKind.UNKNOWN if ticks(self.bound, *point) == OUTSIDE else SupportKind.BY_ORDER

    def read(self, points: Points) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(expected_ms, bound_ms) of many batches of equal contexts and at most one chunk.

        Args:
            points: (n, k, c, u) of each, shape (points, 4), int64.

        Returns:
            Two arrays of shape (points,): what `expected_ms` and `bound_ms` give for each.

        Raises:
            OutOfDomainError: names the first point outside.
        """
        wrong = np.flatnonzero(~self.domain.contains(points))
        if wrong.size:
            n, k, c, u = points[wrong[0]].tolist()
            raise OutOfDomainError(f"point (n {n}, k {k}, c {c}, u {u}): {self.domain.refusal(n, k, c, u)}")
        expected, bound = self.arrays.read_ticks(points)
        bound = raised(bound, self.bound.factor)
        return to_ms(np.minimum(raised(expected, self.expected.factor), bound)), to_ms(bound)

    def read_bounds(
        self, points: Points, unequal: NDArray[np.bool_], several: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """bound_ms (points,) of many points inside the domain, raised by the table's factors.

        unequal, several: bool (points,), where contexts are unequal and where several chunks are computed.
        """
        times: Ticks = self.arrays.read_ticks(points)[1]
        head = self.bound.head[0]
        for where, factor in ((unequal, head.unequal), (several, head.several)):
            times = np.where(where, raised(times, factor), times)
        return to_ms(raised(times, head.factor))

    def largest_chunk(
        self,
        *,
        decodes: int,
        context_tokens: int,
        prefix_tokens: int,
        budget_ms: float,
        max_chunk: int | None = None,
        align: int = 1,
        longest_context: int | None = None,
        chunks: int = 1,
    ) -> int:
        """Largest chunk whose iteration with the decodes has bound_ms <= budget_ms; 0 when none fits.

        Also 0 when the bound of the decodes alone is above the budget. Non-increasing as the rest of the batch gains
        work, non-decreasing in the budget.

        Args:
            decodes: how many requests decode.
            context_tokens: mean context of the decodes (ignored without decodes), rounded up as `Batch` does.
            prefix_tokens: tokens before the chunk in the KV cache.
            budget_ms: time that the iteration may take.
            max_chunk: a candidate itself, so that the alignment does not starve the last tokens of a prompt.
                Default: the domain's limit.
            align: the other candidates are its multiples. Candidates outside the domain are left out.
            longest_context: the longest context of a decode. Default: all are equal; where they are not the answer
                may be too large by the table's factor.
            chunks: how many prompts' chunks the answer is the sum of; of several each must fit the context length.

        Raises:
            OutOfDomainError: the state lies outside the domain without any chunk.
            UsageError: impossible arguments.
        """
        # The rule "cut max_chunk to the domain, then take it as a candidate" is not monotone: with align 16 a state cut
        # to 10 would get 10, and one with less work, cut to 20, might get 0.
        if max_chunk is None:
            max_chunk = self.domain.max_chunk_tokens
        n, u = decodes, prefix_tokens
        k = context_tokens if n else 0
        longest = longest_context if n and longest_context is not None else k
        possible = min(n, u, max_chunk) >= 0 and min(align, chunks) >= 1 and (not n or k >= 1) and longest >= k
        if not possible or budget_ms != budget_ms:
            raise UsageError(
                f"largest_chunk(decodes={decodes}, context_tokens={context_tokens}, prefix_tokens={prefix_tokens}, "
                f"budget_ms={budget_ms}, max_chunk={max_chunk}, align={align}, longest_context={longest_context}, "
                f"chunks={chunks}): expected whole numbers >= 0, a context of at least 1 token and none longer than "
                "the longest, align and chunks >= 1, and a budget that is a number"
            )
        tokens = largest_chunk(self.bound, n, k, longest, u, budget_ticks(budget_ms), max_chunk, align, chunks)
        if tokens == OUTSIDE:
            raise self._no_chunk(n, k, longest, u)
        return tokens

    def _ticks(self, batch: Batch, *tables: FlatTable) -> list[int]:
        """The batch's time in each table. Raises OutOfDomainError."""
        n, k, c, u = point = batch.point()
        longest, chunks = batch.longest_context, len(batch.chunks)
        if chunks > 1:
            self.domain.require(batch)  # of several chunks the table does not see each one's length
        times = [bound_ticks(table, n, k, longest, c, u, chunks) for table in tables]
        if OUTSIDE in times:
            self.domain.require(batch)
            raise OutOfDomainError(self.arrays.not_measured(point))
        return times

    def _no_chunk(self, n: int, k: int, longest: int, u: int) -> OutOfDomainError:
        """Why `largest_chunk` has no answer."""
        limit = self.domain.context_length
        reason = self.domain.refusal(n, k, 0, u)
        if longest > limit and longest > k:
            reason = f"a decode context of {longest:,} tokens exceeds the context length"
        elif reason is None and u > limit:
            reason = f"prefix {u:,} exceeds the context length {limit:,}"
        if reason is None:
            alone = Point(n, k, 0, 0)
            lacks = n and ticks(self.bound, *alone) == OUTSIDE
            return OutOfDomainError(self.arrays.not_measured(alone if lacks else Point(n, k, 1, u)))
        return OutOfDomainError(f"state (n {n}, k {k}, u {u}): {reason}; a table answers only where it was measured")

    def __repr__(self) -> str:
        certificate = self.document.certificate
        promise = f"{certificate.coverage:.3g} certified" if certificate else "not certified"
        return f"CostTable({self.fingerprint.title()}, {list_scenes(self.arrays)}, {promise})"
