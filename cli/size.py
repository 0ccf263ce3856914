"""`chunkfit size`: the static token budget for a decode latency target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import AllowRefuted, Share, ShareBelowAll, TimeFromZero
from .output import JsonFlag, Result, balance_line, emit, escape, grid, percent
from .table_lines import factors_line, support_line, usual_context, verdict_line

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from ..planning.chunk_tax import ChunkTax
    from ..planning.ridge import Ridge
    from ..planning.sizing import Budget, Prompt
    from ..tables import CostTable


@dataclass(frozen=True)
class Sizing(Result):
    """The largest static token budget under a target; `budget` holds it with the iteration that limits it."""

    table: CostTable
    target_ms: float
    headroom: float
    decodes: int
    context_tokens: int
    prompts: tuple[Prompt, ...]
    budget: Budget
    ridge: Ridge | None
    taxes: tuple[ChunkTax, ...]
    retune: dict[str, dict[str, object]]

    @property
    def chunk_tokens(self) -> int:
        """What is left beside the decodes; below 0 where not even these fit."""
        return self.budget.tokens - self.decodes

    @property
    def setting(self) -> str | None:
        """The engine's name for the budget, where it is known."""
        from ..planning.sizing import SETTINGS

        return SETTINGS.get(self.table.fingerprint.engine or "")

    @property
    def factors(self) -> dict[str, float | None]:
        return self.table.document.factors.model_dump(include={"unequal_contexts", "several_chunks"})

    def data(self) -> dict[str, Any]:
        budget, certificate = self.budget, self.table.document.certificate
        return {
            "measured_on": self.table.fingerprint.title(),
            "synthetic": self.table.fingerprint.synthetic,
            "engine": self.table.fingerprint.engine,
            "target_ms": self.target_ms,
            "headroom": self.headroom,
            "decodes": self.decodes,
            "context_tokens": self.context_tokens,
            "budget_tokens": budget.tokens,
            "chunk_tokens": max(self.chunk_tokens, 0),
            "limited_by": budget.limited_by,
            "worst": None if budget.worst is None else budget.worst._asdict(),
            "worst_ms": budget.worst_ms,
            "support": budget.support,
            "verdict": None if self.table.document.verdict is None else self.table.document.verdict.grade,
            "coverage": certificate.coverage if certificate else None,
            "setting": {"name": self.setting, "value": budget.tokens} if self.setting and budget.tokens else None,
            "factors": self.factors,
            "ridge": None if self.ridge is None else asdict(self.ridge),
            "prompts": [asdict(tax) | {"suffix_tokens": tax.prompt.suffix_tokens} for tax in self.taxes],
            "retune": self.retune,
        }

    def shown(self) -> Iterator[RenderableType]:
        tokens = self.budget.tokens
        title = f"[bold]static token budget: {tokens} tokens[/]"
        yield title + (
            f" ({self.decodes} decodes + {self.chunk_tokens} prompt tokens)"
            if tokens
            else ": the target leaves no room"
        )
        yield grid(list(self._lines()))
        if self.taxes:
            yield _tax_table(self.taxes)

    def _lines(self) -> Iterator[tuple[str, str]]:
        budget, ridge, facts = self.budget, self.ridge, self.table.fingerprint
        yield from verdict_line(self.table.document)
        yield "measured on", escape(facts.title())
        yield "target", f"{self.target_ms:g} ms, {100 * self.headroom:g}% of it left free: {budget.limit_ms:g} ms"
        yield "decodes", f"up to {self.decodes} of mean context {self.context_tokens:,}"
        yield "setting", escape(_setting_line(facts.engine, self.setting, budget.tokens))
        if budget.worst is not None:
            n, _, c, u = budget.worst
            yield "slowest iteration", f"n {n}, c {c}, u {u}: bound {budget.worst_ms:.3f} ms"
            yield "rests on", support_line(self.table, budget.support)
        if budget.limited_by == "domain":
            yield "note", "[yellow]limited by what was measured, not by the target: a larger one may do[/]"
        yield "factors", factors_line(self.table.document.factors)
        if not self.prompts:
            yield "note", "[yellow]for prompts that fit one chunk: give --prompt for longer ones[/]"
        yield "ridge", _ridge_line(ridge, budget.tokens)
        if ridge is not None and ridge.balance_tokens is not None:
            yield "balance", balance_line(ridge.balance_tokens)
        refuse, warn = (", ".join(self.retune[severity]) for severity in ("refuse", "warn"))
        yield "tune again when", f"one of these changes: {refuse}"
        yield "check again when", f"one of these changes: {warn}, prefix hit rate, decode batch"


def size(
    table: Annotated[Path, typer.Argument(help="Cost table (JSON).")],
    tpot: Annotated[
        TimeFromZero, typer.Option(help="Time per output token that decodes may take, with its unit: 25ms.")
    ],
    decodes: Annotated[int, typer.Option(help="Decoding requests n that really run together.")],
    context: Annotated[
        int | None, typer.Option(help="Mean context k of the decodes; default: the median of the table's fit rows.")
    ] = None,
    prompt: Annotated[
        list[int] | None, typer.Option(help="Prompt length in tokens, hits included; may be given several times.")
    ] = None,
    prefix_hit: Annotated[Share, typer.Option(help="Share of each prompt found in the prefix cache.")] = 0.0,
    headroom: Annotated[ShareBelowAll, typer.Option(help="Share of the target left free.")] = 0.05,
    allow_refuted: AllowRefuted = False,
    as_json: JsonFlag = False,
) -> None:
    """Largest static token budget n + c under a TPOT target, the ridge, and what the chunking costs.

    Example: chunkfit size table.json --tpot 25ms --decodes 64 --context 1000 --prompt 4000 --prefix-hit 0.5
    """
    from ..files.errors import UsageError
    from ..planning.chunk_tax import chunk_tax
    from ..planning.sizing import Prompt, budget_ridge, retune_fields, static_budget
    from ..tables import CostTable
    from ..tables.verdict import require_usable

    if prefix_hit and not prompt:
        raise UsageError(f"--prefix-hit {prefix_hit:g} without --prompt: expected the prompt lengths it is a share of")
    costs = CostTable.load(table)
    require_usable(costs.document.verdict, str(table), allow_refuted)
    k = usual_context(costs) if context is None else context
    prompts = [Prompt.after_hits(tokens, prefix_hit) for tokens in prompt or ()]
    budget = static_budget(costs, decodes, k, tpot * (1 - headroom), prompts)
    ridge = budget_ridge(costs, decodes, k)
    chunk = budget.tokens - decodes
    taxes = [chunk_tax(costs, p, min(chunk, p.suffix_tokens), decodes, k) for p in prompts] if budget.tokens else []
    retune = retune_fields(costs.fingerprint)
    emit(Sizing(costs, tpot, headroom, decodes, k, tuple(prompts), budget, ridge, tuple(taxes), retune), as_json)


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


def _tax_table(taxes: Sequence[ChunkTax]) -> Table:
    from rich.table import Table

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
