"""T(n, c) in the terminal: colour is the bound, a line parts what fits the budget from what does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..tables import Batch, CostTable

if TYPE_CHECKING:
    from rich.text import Text

CELL = 8  # characters of a cell and of the row labels
SHADES = ("#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725")
DARK = 4  # shades before this one take light text


def heat_map(
    table: CostTable, context_tokens: int, prefix_tokens: int, budget_ms: float | None, width: int = 80
) -> tuple[Text, dict[str, Any]]:
    """(picture, values) of bound_ms over n (rows) and c (columns) at one context and prefix.

    Cells outside the domain are blank; columns are thinned to `width` characters. Without a budget no line
    is drawn.
    """
    from rich.text import Text

    rows = [0, *table.arrays.axes.decodes]
    columns = _thinned([0, *table.arrays.axes.chunk_tokens], max(width // CELL - 1, 2))
    cells = [[_bound(table, n, context_tokens, c, prefix_tokens) for c in columns] for n in rows]
    known = [v for row in cells for v in row if v is not None]
    low, high = np.log(min(known, default=1.0)), np.log(max(known, default=2.0))
    text = Text()
    text.append(
        f"bound in ms over decodes n (down) and chunk tokens c (across), k {context_tokens}, u {prefix_tokens}\n"
    )
    text.append("  n \\ c " + "".join(f"{c:>8}" for c in columns) + "\n", style="dim")
    for n, row in zip(rows, cells, strict=True):
        text.append(f"{n:>7} ", style="dim")
        fitted = True
        for value in row:
            over = budget_ms is not None and value is not None and value > budget_ms
            edge = "|" if over and fitted else " "
            fitted = not over
            text.append(edge, style="bold red")
            if value is None:
                text.append("      .", style="dim")
                continue
            shade = int((np.log(value) - low) / max(high - low, 1e-9) * (len(SHADES) - 1) + 0.5)
            text.append(f"{value:>7.4g}", style=f"{'white' if shade < DARK else 'black'} on {SHADES[shade]}")
        text.append("\n")
    if budget_ms is not None:
        text.append(f"| budget {budget_ms:g} ms: cells left of the line fit\n", style="red")
    values = {
        "context_tokens": context_tokens,
        "prefix_tokens": prefix_tokens,
        "decodes": rows,
        "chunk_tokens": columns,
    }
    return text, values | {"bound_ms": cells, "budget_ms": budget_ms}


def _thinned(columns: list[int], most: int) -> list[int]:
    """At most `most` of them, ends kept."""
    if len(columns) <= most:
        return columns
    return [columns[i] for i in np.unique(np.linspace(0, len(columns) - 1, most).astype(int))]


def _bound(table: CostTable, n: int, k: int, c: int, u: int) -> float | None:
    if not n and not c:
        return None
    batch = Batch.of(n, k if n else 0, c, u if c else 0)
    if batch.scene not in table.arrays.ladders or table.domain.refusal_of(batch) is not None:
        return None
    return table.bound_ms(batch)
