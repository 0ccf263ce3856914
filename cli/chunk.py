"""`chunkfit chunk`: the question a scheduler asks, from the command line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import TimeFromZero
from .output import JsonFlag, Result, emit, escape, grid

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class ChunkAnswer(Result):
    """The largest chunk of a state within a budget. Times in ms; of the iteration with the chunk, None without one."""

    chunk_tokens: int
    decodes: int
    context_tokens: int
    longest_context_tokens: int | None
    prefix_tokens: int
    budget_ms: float
    expected_ms: float | None
    bound_ms: float | None
    margin_ms: float | None
    coverage: float | None
    confidence: float | None
    calibration_points: int | None
    synthetic: bool
    measured_on: str
    note: str | None

    def shown(self) -> Iterator[RenderableType]:
        state = f"n {self.decodes}, k {self.context_tokens}, u {self.prefix_tokens}"
        lines = [("measured on", escape(self.measured_on)), ("state", state)]
        expected, bound = self.expected_ms, self.bound_ms
        if expected is not None and bound is not None:
            over = f"{100 * (bound / expected - 1):.1f}% over expected"
            lines += [
                ("iteration with it", f"expected {expected:.3f} ms, bound {bound:.3f} ms of {self.budget_ms:g} ms"),
                ("margin", f"{bound - expected:.3f} ms ({over})"),
            ]
        if self.note:
            lines.append(("note", f"[yellow]{self.note}: no chunk can be added[/]"))
        if self.coverage is not None:
            share = f"{self.coverage:.3g} of iterations at {self.confidence:.2g} confidence"
            lines.append(("the bound holds for", f"{share} ({self.calibration_points} calibration points)"))
        yield f"[bold]largest chunk: {self.chunk_tokens} tokens[/]"
        yield grid(lines)


def chunk(
    table: Annotated[Path, typer.Argument(help="Cost table (JSON).")],
    decodes: Annotated[int, typer.Option(help="Decoding requests n in the iteration.")],
    budget: Annotated[TimeFromZero, typer.Option(help="Time the iteration may take, with its unit: 25ms.")],
    context: Annotated[int, typer.Option(help="Mean context k of the decodes, in tokens.")] = 0,
    longest_context: Annotated[
        int | None, typer.Option(help="Longest context of a decode; without it all are taken as equal.", min=1)
    ] = None,
    prefix: Annotated[int, typer.Option(help="Prompt tokens u already computed before the chunk.")] = 0,
    max_chunk: Annotated[int | None, typer.Option(help="Largest chunk wanted, such as what remains.")] = None,
    align: Annotated[int, typer.Option(help="The chunk is a multiple of this, or --max-chunk itself.")] = 1,
    as_json: JsonFlag = False,
) -> None:
    """Largest prefill chunk for a state within a time budget, with the margin it rests on.

    Example: chunkfit chunk table.json --decodes 40 --context 1000 --budget 25ms
    """
    from ..tables import Batch, CostTable

    costs = CostTable.load(table)
    contexts = _contexts(decodes, context, longest_context)
    tokens = costs.largest_chunk(
        decodes=decodes,
        context_tokens=context,
        prefix_tokens=prefix,
        budget_ms=budget,
        max_chunk=max_chunk,
        align=align,
        longest_context=longest_context,
    )
    expected = bound = None
    if decodes or tokens:
        batch = Batch.with_chunks(contexts, [(tokens, prefix)] if tokens else [])
        expected, bound = costs.expected_ms(batch), costs.bound_ms(batch)
    certificate = costs.document.certificate
    answer = ChunkAnswer(
        chunk_tokens=tokens,
        decodes=decodes,
        context_tokens=context,
        longest_context_tokens=longest_context,
        prefix_tokens=prefix,
        budget_ms=budget,
        expected_ms=expected,
        bound_ms=bound,
        margin_ms=None if expected is None or bound is None else bound - expected,
        coverage=certificate.coverage if certificate else None,
        confidence=certificate.confidence if certificate else None,
        calibration_points=certificate.points if certificate else None,
        synthetic=costs.fingerprint.synthetic,
        measured_on=costs.fingerprint.title(),
        note="the decodes alone exceed the budget" if bound is not None and bound > budget else None,
    )
    emit(answer, as_json)


def _contexts(decodes: int, context: int, longest: int | None) -> list[int]:
    """Contexts of that mean and longest, the others equal but for one token. Raises UsageError."""
    from ..files.errors import UsageError

    if longest is None or decodes < 1:
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
