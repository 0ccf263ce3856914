"""Small renderings shared by the commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


def grid(lines: Sequence[tuple[str, str]]) -> Table:
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
