"""A command makes one result and emits it to stdout, as text or JSON; progress and errors go to stderr."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON alone on stdout.")]


def result_console() -> Console:
    """stdout."""
    from rich.console import Console

    return Console()


def progress_console() -> Console:
    """stderr."""
    from rich.console import Console

    return Console(stderr=True)


@dataclass(frozen=True)
class Result:
    """The result of a command: its fields are the keys of --json, `shown` is its text."""

    def data(self) -> Any:
        """What --json prints. NaN and infinity are refused."""
        from pydantic_core import to_jsonable_python

        return to_jsonable_python(self)

    def shown(self) -> Iterable[RenderableType]:
        """Lines with rich markup, and tables."""
        raise NotImplementedError


def emit(result: Result, as_json: bool) -> None:
    """Print the result on stdout."""
    if as_json:
        typer.echo(json.dumps(result.data(), indent=1, allow_nan=False))
        return
    console = result_console()
    for item in result.shown():
        console.print(item, soft_wrap=isinstance(item, str), highlight=False)


def emit_data(data: Mapping[str, Any], as_json: bool, *shown: RenderableType) -> None:
    """Print `data` as JSON, or else what is for people."""
    if as_json:
        typer.echo(json.dumps(data, indent=1, allow_nan=False))
        return
    console = result_console()
    for item in shown:
        console.print(item, soft_wrap=isinstance(item, str), highlight=False)


def grid(lines: Iterable[tuple[str, str]]) -> Table:
    """Label and value, aligned; values may hold rich markup."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in lines:
        table.add_row(label, value)
    return table


def percent(share: float | None) -> str:
    return "unknown" if share is None else f"{100 * share:.2f}%"


def number(value: float | None) -> str:
    """Four digits of what is there."""
    return "-" if value is None else f"{value:.4g}"


def balance_line(tokens: float) -> str:
    """What `Ridge.balance_tokens` means."""
    return f"{tokens:.3g} tokens: their own time equals the flat level"


def escape(text: str) -> str:
    """Text with no rich markup in it: paths and JSON paths hold brackets."""
    from rich.markup import escape as rich_escape

    return rich_escape(text)
