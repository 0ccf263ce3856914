"""`chunkfit size`: the static token budget for a decode latency target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .output import JsonFlag, emit_data

if TYPE_CHECKING:
    from rich.table import Table

    from ..planning.chunk_tax import ChunkTax
    from ..planning.ridge import Ridge


def size(
    table: Annotated[Path, typer.Argument(help="Cost table (JSON).")],
    tpot: Annotated[str, typer.Option(help="Time per output token that decodes may take, with its unit: 25ms.")],
    decodes: Annotated[int, typer.Option(help="Decoding requests n that really run together.")],
    context: Annotated[
        int | None, typer.Option(help="Mean context k of the decodes; default: a middle knot of the table.")
    ] = None,
    prompt: Annotated[
        list[int] | None, typer.Option(help="Prompt length in tokens, hits included; may be given several times.")
    ] = None,
    prefix_hit: Annotated[float, typer.Option(help="Share of each prompt found in the prefix cache.")] = 0.0,
    headroom: Annotated[float, typer.Option(help="Share of the target left free.")] = 0.05,
    as_json: JsonFlag = False,
) -> None:
    """Largest static token budget n + c under a TPOT target, the ridge, and what the chunking costs.

    Example: chunkfit size table.json --tpot 25ms --decodes 64 --context 1000 --prompt 4000 --prefix-hit 0.5
    """
    from dataclasses import asdict

    from ..files.errors import UsageError
    from ..files.units import milliseconds
    from ..planning.chunk_tax import chunk_tax
    from ..planning.sizing import SETTINGS, Prompt, budget_ridge, retune_fields, static_budget
    from ..tables import CostTable
    from .exit_codes import escape
    from .output import balance_line, grid

    target_ms = milliseconds(tpot, "--tpot")
    if not 0 <= headroom < 1:
        raise UsageError(f"--headroom {headroom:g}: expected a share from 0 to below 1")
    if prefix_hit and not prompt:
        raise UsageError(f"--prefix-hit {prefix_hit:g} without --prompt: expected the prompt lengths it is a share of")
    costs = CostTable.load(table)
    axis = costs.arrays.axes.context_tokens
    k = axis[len(axis) // 2] if context is None else context
    prompts = [Prompt.after_hits(tokens, prefix_hit) for tokens in prompt or ()]
    budget = static_budget(costs, decodes, k, target_ms * (1 - headroom), prompts)
    ridge = budget_ridge(costs, decodes, k)
    chunk = budget.tokens - decodes
    taxes = [chunk_tax(costs, p, min(chunk, p.suffix_tokens), decodes, k) for p in prompts] if budget.tokens else []
    engine = costs.fingerprint.engine
    setting = SETTINGS.get(engine or "")
    retune = retune_fields(costs.fingerprint)
    certificate = costs.document.certificate
    factors = costs.document.factors.model_dump(include={"unequal_contexts", "several_chunks"})
    data: dict[str, Any] = {
        "measured_on": costs.fingerprint.title(),
        "synthetic": costs.fingerprint.synthetic,
        "engine": engine,
        "target_ms": target_ms,
        "headroom": headroom,
        "decodes": decodes,
        "context_tokens": k,
        "budget_tokens": budget.tokens,
        "chunk_tokens": max(chunk, 0),
        "limited_by": budget.limited_by,
        "worst": None if budget.worst is None else budget.worst._asdict(),
        "worst_ms": budget.worst_ms,
        "coverage": certificate.coverage if certificate else None,
        "setting": {"name": setting, "value": budget.tokens} if setting and budget.tokens else None,
        "factors": factors,
        "ridge": None if ridge is None else asdict(ridge),
        "prompts": [asdict(tax) | {"suffix_tokens": tax.prompt.suffix_tokens} for tax in taxes],
        "retune": retune,
    }
    lines = [
        ("measured on", escape(costs.fingerprint.title())),
        ("target", f"{target_ms:g} ms, {100 * headroom:g}% of it left free: {budget.limit_ms:g} ms"),
        ("decodes", f"up to {decodes} of mean context {k:,}"),
        ("setting", escape(_setting_line(engine, setting, budget.tokens))),
    ]
    if budget.worst is not None:
        n, _, c, u = budget.worst
        lines.append(("slowest iteration", f"n {n}, c {c}, u {u}: bound {budget.worst_ms:.3f} ms"))
    if budget.limited_by == "domain":
        lines.append(("note", "[yellow]limited by what was measured, not by the target: a larger one may do[/]"))
    named = (f"{name.replace('_', ' ')} {'not measured' if f is None else f'x {f:.3g}'}" for name, f in factors.items())
    lines.append(("factors", ", ".join(named)))
    if not prompts:
        lines.append(("note", "[yellow]for prompts that fit one chunk: give --prompt for longer ones[/]"))
    lines.append(("ridge", _ridge_line(ridge, budget.tokens)))
    if ridge is not None and ridge.balance_tokens is not None:
        lines.append(("balance", balance_line(ridge.balance_tokens)))
    lines.append(("tune again when", f"one of these changes: {', '.join(retune['refuse'])}"))
    lines.append(
        ("check again when", f"one of these changes: {', '.join(retune['warn'])}, prefix hit rate, decode batch")
    )
    title = f"[bold]static token budget: {budget.tokens} tokens[/]"
    title += f" ({decodes} decodes + {chunk} prompt tokens)" if budget.tokens else ": the target leaves no room"
    emit_data(data, as_json, title, grid(lines), *([_tax_table(taxes)] if taxes else []))


def _setting_line(engine: str | None, setting: str | None, tokens: int) -> str:
    if not tokens:
        return "none: no prompt token fits beside the decodes: fewer decodes, a shorter context or a later target"
    if setting:
        return f"{setting} = {tokens}"
    return (
        f"{tokens} batched tokens of {engine or 'an unknown engine'}, and of no other: another engine's number needs "
        "a table of that engine"
    )


def _ridge_line(ridge: Ridge | None, tokens: int) -> str:
    if ridge is None:
        return "the table has too few budgets to tell"
    if ridge.tokens is None:
        return f"none in the table: {ridge.finding}"
    where = "below" if tokens < ridge.tokens else "beyond"
    return (
        f"the expected time {ridge.finding} (median misfit {100 * ridge.error:.1f}%) and grows by "
        f"{ridge.ms_per_token:.3g} ms per token from there; the budget lies {where} it"
    )


def _tax_table(taxes: list[ChunkTax]) -> Table:
    from rich.table import Table

    from .output import percent

    shown = Table(title="prompts after prefix hits: their chunks against the whole prompt at once", padding=(0, 0))
    for column in ("prompt", "suffix", "chunks", "KV again", "tax", "thin", "re-read", "beside", "TTFT"):
        shown.add_column(column, justify="right")
    for tax in taxes:
        shares = (tax.tax_share, tax.thin_share, tax.reread_share, tax.beside_share)
        shown.add_row(
            f"{tax.prompt.tokens:,}",
            f"{tax.prompt.suffix_tokens:,}",
            f"{tax.chunks} x {tax.chunk_tokens}",
            f"{tax.reread_tokens:,}",
            *(percent(share) for share in shares),
            f"{tax.first_token_ms:.4g} ms",
        )
    whys = sorted({tax.why for tax in taxes if tax.why})
    split = [
        "suffix: tokens to compute; KV again: tokens read more than once; beside: the tax when the chunks ride along "
        "with the decodes; thin and re-read split the tax as ladder and base do: the sum is firm, the split is not"
    ]
    shown.caption = "; ".join([f"unknown: {why}" for why in whys] or split)
    return shown
