"""`chunkfit show`: a table for people: what it is, what it promises, T(n, c) as a heat map."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import TimeFromZero
from .output import JsonFlag, Result, emit, grid, result_console
from .table_lines import evidence_lines, summary_of, usual_context, verdict_lines

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from ..tables import CostTable
    from ..tables.support import SupportKind

CELL = 8  # characters of a cell and of the row labels
SHADES = ("#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725")
DARK = 4  # shades before this one take light text


@dataclass(frozen=True)
class TableView(Result):
    """A table and the heat map of its bound."""

    table: CostTable
    picture: Text
    bounds: dict[str, Any]

    def data(self) -> dict[str, Any]:
        return summary_of(self.table.document) | {"heat_map": self.bounds}

    def shown(self) -> Iterator[RenderableType]:
        yield grid([*verdict_lines(self.table.document), *evidence_lines(self.table.document)])
        yield self.picture


def show(
    table: Annotated[Path, typer.Argument(help="Cost table (JSON).")],
    context: Annotated[
        int | None, typer.Option(help="Context k of the heat map; default: the median of the fit rows.")
    ] = None,
    prefix: Annotated[int, typer.Option(help="Prefix u of the heat map.")] = 0,
    budget: Annotated[TimeFromZero | None, typer.Option(help="Draw the line of this budget: 25ms.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Evidence of a table and a heat map of its bound over decodes and chunk tokens.

    Example: chunkfit show table.json --budget 25ms
    """
    from ..tables import CostTable

    costs = CostTable.load(table)
    k = usual_context(costs) if context is None else context
    emit(TableView(costs, *heat_map(costs, k, prefix, budget, result_console().width)), as_json)


def heat_map(
    table: CostTable, context_tokens: int, prefix_tokens: int, budget_ms: float | None, width: int = 80
) -> tuple[Text, dict[str, Any]]:
    """(picture, values) of bound_ms over n (rows) and c (columns) at one context and prefix.

    Cells without an answer are dots, cells by order have a ~; columns are thinned to `width` characters. Without a
    budget no line is drawn.
    """
    import numpy as np
    from rich.text import Text

    from ..tables.support import SupportKind

    rows = [0, *table.arrays.axes.decodes]
    columns = _thinned([0, *table.arrays.axes.chunk_tokens], max(width // CELL - 1, 2))
    answers = [[_bound(table, n, context_tokens, c, prefix_tokens) for c in columns] for n in rows]
    cells = [[bound for bound, _ in row] for row in answers]
    known = [v for row in cells for v in row if v is not None]
    low, high = np.log(min(known, default=1.0)), np.log(max(known, default=2.0))
    text = Text()
    text.append(
        f"bound in ms over decodes n (down) and chunk tokens c (across), k {context_tokens}, u {prefix_tokens}\n"
    )
    text.append("  n \\ c " + "".join(f"{c:>8}" for c in columns) + "\n", style="dim")
    for n, row in zip(rows, answers, strict=True):
        text.append(f"{n:>7} ", style="dim")
        fitted = True
        for value, kind in row:
            over = budget_ms is not None and value is not None and value > budget_ms
            edge = "|" if over and fitted else " "
            fitted = not over
            text.append(edge, style="bold red")
            if value is None:
                text.append("      .", style="dim")
                continue
            shade = int((np.log(value) - low) / max(high - low, 1e-9) * (len(SHADES) - 1) + 0.5)
            mark = "~" if kind is SupportKind.BY_ORDER else ""
            text.append(
                f"{mark}{value:.4g}".rjust(7), style=f"{'white' if shade < DARK else 'black'} on {SHADES[shade]}"
            )
        text.append("\n")
    kinds = {kind for row in answers for _, kind in row}
    if SupportKind.BY_ORDER in kinds:
        text.append("~ not measured: the bound of measured batches with more work\n", style="dim")
    if kinds & {None, SupportKind.UNKNOWN}:
        text.append(". no answer: outside the domain, or nothing with as much work was measured\n", style="dim")
    if budget_ms is not None:
        text.append(f"| budget {budget_ms:g} ms: cells left of the line fit\n", style="red")
    values = {
        "context_tokens": context_tokens,
        "prefix_tokens": prefix_tokens,
        "decodes": rows,
        "chunk_tokens": columns,
    }
    return text, values | {
        "bound_ms": cells,
        "support": [[kind for _, kind in row] for row in answers],
        "budget_ms": budget_ms,
    }


def _thinned(columns: list[int], most: int) -> list[int]:
    """At most `most` of them, ends kept."""
    import numpy as np

    if len(columns) <= most:
        return columns
    return [columns[i] for i in np.unique(np.linspace(0, len(columns) - 1, most).astype(int))]


def _bound(table: CostTable, n: int, k: int, c: int, u: int) -> tuple[float | None, SupportKind | None]:
    """The bound and what it rests on; None for what is no batch, and for a kind outside the domain."""
    from ..tables import Batch
    from ..tables.support import SupportKind

    if not n and not c:
        return None, None
    batch = Batch.of(n, k if n else 0, c, u if c else 0)
    if table.domain.refusal_of(batch) is not None:
        return None, None
    kind = table.support(batch)
    return (None if kind is SupportKind.UNKNOWN else table.bound_ms(batch)), kind
