"""Where output goes: results to stdout (JSON alone with --json), progress and errors to stderr."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON alone on stdout.")]


def result_console() -> Console:
    """stdout."""
    from rich.console import Console

    return Console()


def progress_console() -> Console:
    """stderr."""
    from rich.console import Console

    return Console(stderr=True)


def emit(data: Mapping[str, Any], as_json: bool, *shown: RenderableType) -> None:
    """Print `data` as JSON, or else what is for people."""
    if as_json:
        typer.echo(json.dumps(data, indent=1, allow_nan=False))
        return
    console = result_console()
    for item in shown:
        console.print(item, soft_wrap=isinstance(item, str), highlight=False)
