"""The cost table a scheduler asks: expected time, bound, largest chunk within a budget."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from ..files.errors import OutOfDomainError, TableFormatError, UsageError
from . import document
from .arrays import TableArrays, from_document, list_scenes
from .batch import Batch, Scene
from .domain import Domain
from .fingerprint import Fingerprint
from .fixed_point import budget_ticks, raised
from .grid import Axes, Ladder, Points, Surface
from .lookup import ROUND_UP, TICKS_PER_MS, WEIGHT_BITS, WEIGHT_ONE, fold_nku, largest_fitting, locate
from .schema_v1 import TableV1
from .self_check import order_findings


@dataclass(frozen=True, slots=True)
class _Flat:
    """One surface as Python integers: what `lookup` walks without touching NumPy."""

    ladder: list[int]  # indexed by n + c
    base: list[int]


class CostTable:
    """T(n, k, c, u) of one device, model and engine, with a bound that holds at its certified coverage.

    The bound never falls as a batch gains work (tables/closure.py), so `largest_chunk` is exact.
    Immutable: reading from several threads is safe.
    """

    def __init__(self, table: TableV1, where: str = "table") -> None:
        """Raises TableFormatError when the order of the bounds is broken; `where` names the source."""
        self.document = table
        self.domain: Domain = table.domain
        self.fingerprint: Fingerprint = table.fingerprint
        self.arrays: TableArrays = from_document(table, where)
        findings = order_findings(self.arrays)
        if findings:
            raise TableFormatError(
                f"{where}: {findings[0]}" + (f" (and {len(findings) - 1} more)" if findings[1:] else "")
            )
        axes = self.arrays.axes
        self._axes: Axes = axes
        self._expected = _flatten(axes, self.arrays.ladders, self.arrays.expected, self.domain)
        self._bound = _flatten(axes, self.arrays.ladders, self.arrays.bound, self.domain)
        self._unequal = _weight(table.factors.unequal_contexts)
        self._several = _weight(table.factors.several_chunks)
        self._chunk_stride = len(axes.chunk_tokens)
        self._context_stride = self._chunk_stride * len(axes.prefix_tokens)
        self._decode_stride = self._context_stride * len(axes.context_tokens)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> CostTable:
        """Read a table file. Raises TableFormatError for anything that is not exactly what was written."""
        where = str(path)
        content = document.parse(document.read_text(path), where)
        table = document.model_of(content, where)
        finding = document.checksum_finding(content)
        if finding is not None:
            raise TableFormatError(f"{where}: {finding}")
        return cls(table, where)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the table file, whole or not at all. Raises StorageError."""
        document.write(self.document, path)

    def expected_ms(self, batch: Batch) -> float:
        """Median time of one iteration, of equal contexts and one chunk of the batch's totals.

        Raises OutOfDomainError outside what was measured.
        """
        self.domain.require(batch)
        return self._read(self._expected, *batch.point()) / TICKS_PER_MS

    def bound_ms(self, batch: Batch) -> float:
        """Upper bound U with P(T <= U) >= the certified coverage, which is of equal contexts and one chunk.

        Unequal contexts: the bound at their mean times the measured factor, or the bound with every context
        the longest where that is less. Several chunks: times their measured factor. Where a factor was not
        measured it is 1. Raises OutOfDomainError outside.

        Without the "or" the bound would fall where the last short decode grows to the length of the others
        and its batch becomes an equal one: more work for less time.
        """
        self.domain.require(batch)
        return self._bound_of(batch, *batch.point()) / TICKS_PER_MS

    def both_ms(self, batch: Batch) -> tuple[float, float]:
        """(expected_ms, bound_ms) with the batch checked and summed once. Raises OutOfDomainError outside."""
        self.domain.require(batch)
        point = batch.point()
        return self._read(self._expected, *point) / TICKS_PER_MS, self._bound_of(batch, *point) / TICKS_PER_MS

    def read(self, points: Points) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(expected_ms, bound_ms) of many points (n, k, c, u), shape (points, 4), int64.

        Same values as `expected_ms` and `bound_ms` of `Batch.of(n, k, c, u)`.
        Raises OutOfDomainError naming the first point outside.
        """
        for n, k, c, u in points.tolist():
            reason = self.domain.refusal(n, k, c, u)
            if reason is not None:
                raise OutOfDomainError(f"point (n {n}, k {k}, c {c}, u {u}): {reason}")
        return self.arrays.read(points)

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
        """Largest chunk whose iteration with `decodes` decodes has bound_ms <= budget_ms; 0 when none fits.

        Candidates are the multiples of `align`, and `max_chunk` itself (default: the domain's limit) so that
        the last tokens of a prompt are not starved by the alignment; those outside the domain are left out.
        context_tokens: mean context of the decodes (ignored without decodes), rounded up as `Batch` does.
        longest_context: the largest of them; without it they are all taken to be equal, and where they are
        not the answer may be too large by the table's factor. prefix_tokens: of the chunk.
        Also 0 when the bound of the decodes alone is above the budget. Non-increasing as the rest of the
        batch gains work, non-decreasing in the budget.
        Raises OutOfDomainError for a state outside the domain without any chunk, UsageError for impossible
        arguments.

        The literal rule "cut max_chunk to the domain, then take it as a candidate" is not monotone: with
        align 16 a state cut to 10 would get 10, and one with less work, cut to 20, might get 0.
        """
        domain = self.domain
        if max_chunk is None:
            max_chunk = domain.max_chunk_tokens
        n, u = decodes, prefix_tokens
        k = context_tokens if n else 0
        longest = longest_context if n and longest_context is not None else k
        if n < 0 or u < 0 or max_chunk < 0 or align < 1 or (n and k < 1) or longest < k or budget_ms != budget_ms:
            raise UsageError(
                f"largest_chunk(decodes={decodes}, context_tokens={context_tokens}, prefix_tokens={prefix_tokens}, "
                f"budget_ms={budget_ms}, max_chunk={max_chunk}, align={align}, longest_context={longest_context}): "
                "expected whole numbers >= 0, a context of at least 1 token and none longer than the longest, "
                "align >= 1 and a budget that is a number"
            )
        limit = budget_ticks(budget_ms)
        if longest == k:
            return self._largest(n, k, u, limit, max_chunk, align)
        if longest > domain.context_length:
            raise self._outside(n, k, u, f"a decode context of {longest:,} tokens exceeds the context length")
        # U factor <= budget, in ticks and exactly: the factor is a number of 1/4096 and products are rounded up.
        tokens = self._largest(n, k, u, limit * WEIGHT_ONE // self._unequal, max_chunk, align)
        if longest <= domain.max_context_tokens and n * longest + u <= domain.kv_tokens:
            tokens = max(tokens, self._largest(n, longest, u, limit, max_chunk, align))
        return tokens

    def _largest(self, n: int, k: int, u: int, limit: int, max_chunk: int, align: int) -> int:
        """`largest_chunk` of equal contexts k and a limit in ticks. Raises OutOfDomainError."""
        domain = self.domain
        rest = n * k + u
        top = min(
            max_chunk,
            domain.max_chunk_tokens,
            domain.max_batch_tokens - n,
            domain.kv_tokens - rest,
            domain.context_length - u,
        )
        if top < 0 or n > domain.max_decodes or k > domain.max_context_tokens or u > domain.max_prefix_tokens:
            reason = domain.refusal(n, k, 0, u) or f"prefix {u:,} exceeds the context length {domain.context_length:,}"
            raise self._outside(n, k, u, reason)
        bound = self._bound
        axes = self._axes
        whole = top if top == max_chunk else 0
        i, wu = locate(axes.prefix_tokens, u)
        du = self._chunk_stride
        if not n:
            if top == 0:
                return 0
            flat = bound.get(Scene.PREFILL) or self._missing(Scene.PREFILL)
            return largest_fitting(
                flat.ladder,
                flat.base,
                axes.chunk_tokens,
                0,
                i * du,
                0,
                0,
                du,
                0,
                0,
                wu,
                limit,
                top,
                align,
                whole,
            )
        if self._read(bound, n, k, 0, 0) > limit or top == 0:
            return 0
        flat = bound.get(Scene.MIXED) or self._missing(Scene.MIXED)
        dk, dn = self._context_stride, self._decode_stride
        j, wn = locate(axes.decodes, n)
        m, wk = locate(axes.context_tokens, k)
        at = j * dn + m * dk + i * du
        return largest_fitting(
            flat.ladder, flat.base, axes.chunk_tokens, n, at, dn, dk, du, wn, wk, wu, limit, top, align, whole
        )

    def _bound_of(self, batch: Batch, n: int, k: int, c: int, u: int) -> int:
        """Ticks of a batch inside the domain whose point is (n, k, c, u)."""
        ticks = self._read(self._bound, n, k, c, u)
        longest = batch.longest_context
        if longest > k:
            ticks = raised(ticks, self._unequal)
            if self.domain.refusal(n, longest, c, u) is None:
                ticks = min(ticks, self._read(self._bound, n, longest, c, u))
        if len(batch.chunks) > 1:
            ticks = raised(ticks, self._several)
        return ticks

    def _read(self, flats: Mapping[Scene, _Flat], n: int, k: int, c: int, u: int) -> int:
        """Ticks of a point inside the domain."""
        axes = self._axes
        if not c:
            flat = flats.get(Scene.DECODE) or self._missing(Scene.DECODE)
            j, wn = locate(axes.decodes, n)
            m, wk = locate(axes.context_tokens, k)
            dn = len(axes.context_tokens)
            return flat.ladder[n] + fold_nku(flat.base, j * dn + m, dn, 1, 0, wn, wk, 0)
        i, wu = locate(axes.prefix_tokens, u)
        h, wc = locate(axes.chunk_tokens, c)
        du = self._chunk_stride
        if not n:
            flat = flats.get(Scene.PREFILL) or self._missing(Scene.PREFILL)
            at, dn, wn, dk, wk = i * du + h, 0, 0, 0, 0
        else:
            flat = flats.get(Scene.MIXED) or self._missing(Scene.MIXED)
            j, wn = locate(axes.decodes, n)
            m, wk = locate(axes.context_tokens, k)
            dk, dn = self._context_stride, self._decode_stride
            at = j * dn + m * dk + i * du + h
        value = fold_nku(flat.base, at, dn, dk, du, wn, wk, wu)
        if wc:
            rise = fold_nku(flat.base, at + 1, dn, dk, du, wn, wk, wu) - value
            value += (rise * wc + ROUND_UP) >> WEIGHT_BITS
        return flat.ladder[n + c] + value

    def _outside(self, n: int, k: int, u: int, reason: str) -> OutOfDomainError:
        return OutOfDomainError(f"state (n {n}, k {k}, u {u}): {reason}; a table answers only where it was measured")

    def _missing(self, scene: Scene) -> _Flat:
        raise OutOfDomainError(
            f"scene {scene.value} was not measured; the table has {list_scenes(self.arrays)}: profile it too"
        )

    def __repr__(self) -> str:
        certificate = self.document.certificate
        promise = f"{certificate.coverage:.3g} certified" if certificate else "not certified"
        return f"CostTable({self.fingerprint.title()}, {list_scenes(self.arrays)}, {promise})"


def _weight(factor: float | None) -> int:
    """A factor as a number of 1/4096, rounded up; 1 where it was not measured."""
    return WEIGHT_ONE if factor is None else math.ceil(factor * WEIGHT_ONE)


def _flatten(
    axes: Axes, ladders: Mapping[Scene, Ladder], surfaces: Mapping[Scene, Surface], domain: Domain
) -> dict[Scene, _Flat]:
    top = domain.max_decodes + domain.max_chunk_tokens
    return {
        scene: _Flat(ladders[scene].dense(surface.ladder, top).tolist(), surface.base.ravel().tolist())
        for scene, surface in surfaces.items()
    }
