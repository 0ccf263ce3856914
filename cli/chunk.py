"""`chunkfit chunk`: the question a scheduler asks, from the command line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import AllowRefuted, TimeFromZero
from .output import JsonFlag, Result, emit, escape, grid
from .table_lines import factors_line, support_line, usual_context, verdict_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..tables import CostTable
    from ..tables.support import SupportKind


@dataclass(frozen=True)
class ChunkAnswer(Result):
    """The largest chunk of a state within a budget, what it rests on, and the answers of easier and harder batches.

    Times in ms; of the iteration with the chunk, None without one. equal_contexts_tokens: the answer if all contexts
    were the mean. several_chunks_tokens: the answer if the tokens belong to several prompts.
    """

    chunk_tokens: int
    decodes: int
    context_tokens: int
    longest_context_tokens: int | None
    prefix_tokens: int
    budget_ms: float
    expected_ms: float | None
    bound_ms: float | None
    margin_ms: float | None
    equal_contexts_tokens: int
    several_chunks_tokens: int
    support: SupportKind | None
    limited_by: str
    verdict: str | None
    coverage: float | None
    confidence: float | None
    calibration_points: int | None
    synthetic: bool
    measured_on: str
    lines: tuple[tuple[str, str], ...]

    def data(self) -> dict[str, Any]:
        fields: dict[str, Any] = super().data()
        del fields["lines"]
        return fields

    def shown(self) -> Iterator[RenderableType]:
        yield f"[bold]largest chunk: {self.chunk_tokens} tokens[/]"
        yield grid(self.lines)


def chunk(
    table: Annotated[Path, typer.Argument(help="Cost table (JSON).")],
    decodes: Annotated[int, typer.Option(help="Decoding requests n in the iteration.")],
    budget: Annotated[TimeFromZero, typer.Option(help="Time the iteration may take, with its unit: 25ms.")],
    context: Annotated[
        int | None, typer.Option(help="Mean context k of the decodes; default: the median of the table's fit rows.")
    ] = None,
    longest_context: Annotated[
        int | None, typer.Option(help="Longest context of a decode; default: as long as the mean allows.", min=1)
    ] = None,
    equal_contexts: Annotated[
        bool,
        typer.Option("--equal-contexts", help="All contexts are the mean: without the factor of others."),
    ] = False,
    prefix: Annotated[int, typer.Option(help="Prompt tokens u already computed before the chunk.")] = 0,
    max_chunk: Annotated[int | None, typer.Option(help="Largest chunk wanted, such as what remains.")] = None,
    align: Annotated[int, typer.Option(help="The chunk is a multiple of this, or --max-chunk itself.")] = 1,
    allow_refuted: AllowRefuted = False,
    as_json: JsonFlag = False,
) -> None:
    """Largest prefill chunk for a state within a time budget, and what the answer rests on.

    Example: chunkfit chunk table.json --decodes 40 --context 1000 --budget 25ms
    """
    from ..files.errors import UsageError
    from ..tables import Batch, CostTable
    from ..tables.verdict import require_usable

    if equal_contexts and longest_context is not None:
        raise UsageError("--equal-contexts and --longest-context: contexts are equal or not; expected one of them")
    costs = CostTable.load(table)
    require_usable(costs.document.verdict, str(table), allow_refuted)
    k = 0 if decodes < 1 else usual_context(costs) if context is None else context
    longest = k if equal_contexts else _longest(costs, decodes, k) if longest_context is None else longest_context
    contexts = _contexts(decodes, k, longest)

    def largest(longest: int, chunks: int = 1) -> int:
        return costs.largest_chunk(
            decodes=decodes,
            context_tokens=k,
            prefix_tokens=prefix,
            budget_ms=budget,
            max_chunk=max_chunk,
            align=align,
            longest_context=longest if decodes > 0 else None,
            chunks=chunks,
        )

    tokens = largest(longest)
    expected = bound = support = None
    if decodes or tokens:
        batch = Batch.with_chunks(contexts, [(tokens, prefix)] if tokens else [])
        expected, bound = costs.both_ms(batch)
        support = costs.support(batch)
    certificate = costs.document.certificate
    limited_by, note = _limit(costs, (decodes, k, prefix), tokens, align, max_chunk, bound, budget)
    answer = ChunkAnswer(
        chunk_tokens=tokens,
        decodes=decodes,
        context_tokens=k,
        longest_context_tokens=longest if decodes > 0 and longest > k else None,
        prefix_tokens=prefix,
        budget_ms=budget,
        expected_ms=expected,
        bound_ms=bound,
        margin_ms=None if expected is None or bound is None else bound - expected,
        equal_contexts_tokens=largest(k),
        several_chunks_tokens=largest(longest, 2),
        support=support,
        limited_by=limited_by,
        verdict=None if costs.document.verdict is None else costs.document.verdict.grade.value,
        coverage=certificate.coverage if certificate else None,
        confidence=certificate.confidence if certificate else None,
        calibration_points=certificate.points if certificate else None,
        synthetic=costs.fingerprint.synthetic,
        measured_on=costs.fingerprint.title(),
        lines=(),
    )
    emit(replace(answer, lines=tuple(_lines(costs, answer, context is None, note))), as_json)


def _lines(table: CostTable, answer: ChunkAnswer, usual: bool, note: str) -> Iterator[tuple[str, str]]:
    """The answer for people."""
    yield from verdict_line(table.document)
    yield "measured on", escape(answer.measured_on)
    default = " (median of the fit rows)" if usual and answer.decodes > 0 else ""
    yield "state", f"n {answer.decodes}, k {answer.context_tokens}{default}, u {answer.prefix_tokens}"
    expected, bound = answer.expected_ms, answer.bound_ms
    if expected is not None and bound is not None:
        over = f"{100 * (bound / expected - 1):.1f}% over expected"
        yield "iteration with it", f"expected {expected:.3f} ms, bound {bound:.3f} ms of {answer.budget_ms:g} ms"
        yield "margin", f"{bound - expected:.3f} ms ({over})"
        yield "rests on", support_line(table, answer.support)
    if answer.longest_context_tokens is not None:
        yield "contexts", f"unequal, up to {answer.longest_context_tokens:,}; all equal: {answer.equal_contexts_tokens}"
    yield "several prompts", f"their chunks together: {answer.several_chunks_tokens}"
    yield "factors", factors_line(table.document.factors)
    if note:
        yield "note", f"[yellow]{note}[/]"
    if answer.coverage is not None:
        share = f"{answer.coverage:.3g} of iterations at {answer.confidence:.2g} confidence"
        yield "the bound holds for", f"{share} ({answer.calibration_points} calibration points)"


def _limit(
    table: CostTable,
    state: tuple[int, int, int],
    tokens: int,
    align: int,
    max_chunk: int | None,
    bound_ms: float | None,
    budget_ms: float,
) -> tuple[str, str]:
    """What keeps the chunk from being larger: "budget", "decodes", "support", "domain" or "max_chunk", and a note."""
    from ..tables import Point
    from ..tables.support import SupportKind

    n, k, u = state
    if bound_ms is not None and bound_ms > budget_ms:
        return "decodes", "the decodes alone exceed the budget: no chunk can be added"
    if tokens == max_chunk:
        return "max_chunk", ""
    following = Point(n, k, tokens + align - tokens % align, u)
    length = table.domain.context_length
    reason = table.domain.refusal(*following)
    if reason is None and following.c + u > length:
        reason = f"prefix and chunk exceed the context length {length:,}"
    if reason is not None:
        return "domain", f"limited by what was measured, not by the budget: {reason}"
    if table.support_of(following) is SupportKind.UNKNOWN:
        return "support", f"limited by what was measured, not by the budget: nothing with a chunk of {following.c:,}"
    return "budget", ""


def _longest(table: CostTable, decodes: int, context: int) -> int:
    """The longest context that one of `decodes` can have at this mean and within the model's limit."""
    return max(context, min(table.domain.context_length, decodes * context - decodes + 1))


def _contexts(decodes: int, context: int, longest: int) -> list[int]:
    """Contexts of that mean and longest, the others equal but for one token. Raises UsageError."""
    from ..files.errors import UsageError

    if longest == context or decodes < 1:
        return [context] * decodes
    rest = decodes * context - longest
    if longest < context or rest < decodes - 1 or (decodes == 1 and rest):
        raise UsageError(
            f"--longest-context {longest}: {decodes} decodes of mean context {context} have none such; expected "
            f"{context} to {decodes * context - decodes + 1}"
        )
    if decodes == 1:
        return [longest]
    each, more = divmod(rest, decodes - 1)
    return [longest, *[each + 1] * more, *[each] * (decodes - 1 - more)]
