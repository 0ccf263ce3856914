"""Columns of a log that were not read: shown, since one that varies may mean that two things are mixed."""

from __future__ import annotations

from collections.abc import Iterable

from ...files.record import Record

SOME_VALUES = 3
_LONGEST = 24  # characters of a value


class UnreadColumns:
    """Every column but `used`, with some of the values it holds."""

    def __init__(self, used: Iterable[str]) -> None:
        self._used = frozenset(used)
        self._values: dict[str, dict[str, None]] = {}

    def see(self, record: Record) -> None:
        for column in record.values.keys() - self._used:
            known = self._values.setdefault(column, {})
            if len(known) < SOME_VALUES:
                known[str(record.values[column])[:_LONGEST]] = None

    def shown(self) -> dict[str, list[str]]:
        """Columns by name, up to SOME_VALUES values of each in the order of the file."""
        return {column: list(known) for column, known in sorted(self._values.items())}
