"""Draws docs/images/heat-map.svg, the heat map that `chunkfit show` prints: python docs/heat_map.py TABLE BUDGET_MS"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from rich.console import Console

import chunkfit
from chunkfit.cli.show import heat_map
from chunkfit.cli.table_lines import usual_context

WIDTH = 96


def main(table: str, budget_ms: str) -> None:
    costs = chunkfit.load(table)
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(heat_map(costs, usual_context(costs), 0, float(budget_ms), WIDTH)[0])
    title = f"chunkfit show table.json --budget {float(budget_ms):g}ms   ({costs.fingerprint.title()})"
    (Path(__file__).parent / "images" / "heat-map.svg").write_text(console.export_svg(title=title))


if __name__ == "__main__":
    main(*sys.argv[1:])
