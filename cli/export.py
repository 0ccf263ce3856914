"""`chunkfit export`: the table in other shapes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from .output import JsonFlag, Result, emit


@dataclass(frozen=True)
class Exported(Result):
    """A written file and its size."""

    written: Path
    bytes: int

    def shown(self) -> Iterator[str]:
        yield f"written: {self.written}"


def export(
    table: Annotated[Path, typer.Argument(help="Cost table (JSON).")],
    out: Annotated[Path, typer.Argument(help="File to write; .csv for nodes, .json for the table itself.")],
    as_json: JsonFlag = False,
) -> None:
    """Write the table's nodes as CSV, or a checked copy as JSON; `schema.json` as OUT's name writes the schema.

    Example: chunkfit export table.json table.csv
    """
    from ..files.errors import UsageError
    from ..files.writing import write_atomically
    from ..tables import CostTable
    from ..tables.export import shipped_schema, write_csv

    costs = CostTable.load(table)
    if out.name == "schema.json":
        write_atomically(out, shipped_schema(costs.document.schema_version).encode())
    elif out.suffix == ".csv":
        write_csv(costs, out)
    elif out.suffix == ".json":
        costs.save(out)
    else:
        raise UsageError(f"OUT {str(out)!r}: expected a name that ends in .csv or .json")
    emit(Exported(out, out.stat().st_size), as_json)
