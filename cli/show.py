"""`chunkfit show`: a table for people: what it is, what it promises, T(n, c) as a heat map."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .output import JsonFlag, emit_data


def show(
    table: Annotated[Path, typer.Argument(help="Cost table (JSON).")],
    context: Annotated[int | None, typer.Option(help="Context k of the heat map; default: a middle knot.")] = None,
    prefix: Annotated[int, typer.Option(help="Prefix u of the heat map.")] = 0,
    budget: Annotated[str | None, typer.Option(help="Draw the line of this budget: 25ms.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Evidence of a table and a heat map of its bound over decodes and chunk tokens.

    Example: chunkfit show table.json --budget 25ms
    """
    from ..files.units import milliseconds
    from ..tables import CostTable
    from .evidence import evidence_lines, summary_of
    from .heat_map import heat_map
    from .output import grid, result_console

    costs = CostTable.load(table)
    axis = costs.arrays.axes.context_tokens
    k = axis[len(axis) // 2] if context is None else context
    budget_ms = None if budget is None else milliseconds(budget, "--budget")
    picture, values = heat_map(costs, k, prefix, budget_ms, result_console().width)
    data = summary_of(costs.document) | {"heat_map": values}
    emit_data(data, as_json, grid(evidence_lines(costs.document)), picture)
