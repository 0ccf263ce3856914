"""`chunkfit chunk`: the question a scheduler asks, from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .output import JsonFlag, emit_data


def chunk(
    table: Annotated[Path, typer.Argument(help="Cost table (JSON).")],
    decodes: Annotated[int, typer.Option(help="Decoding requests n in the iteration.")],
    budget: Annotated[str, typer.Option(help="Time the iteration may take, with its unit: 25ms.")],
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
    from ..files.units import milliseconds
    from ..tables import Batch, CostTable
    from .exit_codes import escape
    from .output import grid

    budget_ms = milliseconds(budget, "--budget")
    costs = CostTable.load(table)
    contexts = _contexts(decodes, context, longest_context)
    tokens = costs.largest_chunk(
        decodes=decodes,
        context_tokens=context,
        prefix_tokens=prefix,
        budget_ms=budget_ms,
        max_chunk=max_chunk,
        align=align,
        longest_context=longest_context,
    )
    certificate = costs.document.certificate
    data: dict[str, object] = {
        "chunk_tokens": tokens,
        "decodes": decodes,
        "context_tokens": context,
        "longest_context_tokens": longest_context,
        "prefix_tokens": prefix,
        "budget_ms": budget_ms,
        "expected_ms": None,
        "bound_ms": None,
        "margin_ms": None,
        "coverage": certificate.coverage if certificate else None,
        "confidence": certificate.confidence if certificate else None,
        "calibration_points": certificate.points if certificate else None,
        "synthetic": costs.fingerprint.synthetic,
        "measured_on": costs.fingerprint.title(),
    }
    lines = [("measured on", escape(costs.fingerprint.title())), ("state", f"n {decodes}, k {context}, u {prefix}")]
    if decodes or tokens:
        batch = Batch.with_chunks(contexts, [(tokens, prefix)] if tokens else [])
        expected, bound = costs.expected_ms(batch), costs.bound_ms(batch)
        data |= {"expected_ms": expected, "bound_ms": bound, "margin_ms": bound - expected}
        lines += [
            ("iteration with it", f"expected {expected:.3f} ms, bound {bound:.3f} ms of {budget_ms:g} ms"),
            ("margin", f"{bound - expected:.3f} ms ({100 * (bound / expected - 1):.1f}% over expected)"),
        ]
        if bound > budget_ms:
            data["note"] = "the decodes alone exceed the budget"
            lines.append(("note", "[yellow]the decodes alone exceed the budget: no chunk can be added[/]"))
    if certificate:
        lines.append(
            (
                "the bound holds for",
                f"{certificate.coverage:.3g} of iterations at {certificate.confidence:.2g} confidence "
                f"({certificate.points} calibration points)",
            )
        )
    emit_data(data, as_json, f"[bold]largest chunk: {tokens} tokens[/]", grid(lines))


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
