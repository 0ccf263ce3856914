"""One row of a log: its values, where it stands, and typed reads that name both when a value is impossible.

And what was left out of a log, counted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from .errors import LogFormatError

MS_PER_UNIT = {"us": 1e-3, "ms": 1.0, "s": 1e3}  # units of time that logs hold
MOST = 10**9  # tokens or requests that an iteration may have; more is no iteration, and no int64 after products
_LARGEST = 1e15
_WHOLE = re.compile(r"[+-]?[0-9]{1,10}(?:\.0*)?")


@dataclass(frozen=True, slots=True)
class Record:
    """values by column. place: as a person finds it (`line 17`, `row 17`, `results[17]`). inside: the JSON
    object that the values are in, for the names in messages (`fpm.scheduled_requests.`), or empty.
    """

    source: str
    place: str
    values: Mapping[str, Any]
    inside: str = ""

    def wrong(self, column: str, expected: str) -> LogFormatError:
        """The error for the value of `column`."""
        where = f"{self.source}: {self.place}, column {self.inside}{column}"
        if column not in self.values:
            there = _short(", ".join(self.values))
            return LogFormatError(f"{where}: not there; expected {expected} (found {there}): is it of this format?")
        found = _short(repr(self.values[column]))
        return LogFormatError(f"{where}: {found}; expected {expected}: correct the row or remove it")

    def says(self, column: str) -> bool:
        """Whether there is a value: no empty cell and no NaN."""
        value = self.values.get(column)
        return value is not None and value == value and str(value).strip().lower() not in ("", "nan")

    def whole(self, column: str, least: int = 0) -> int:
        """An integer from `least` to MOST; text and floats that are whole numbers count. Raises LogFormatError."""
        value = self.values.get(column)
        if isinstance(value, str):
            value = int(value.strip().split(".")[0]) if _WHOLE.fullmatch(value.strip()) else None
        elif isinstance(value, float):
            value = int(value) if value.is_integer() else None
        if not is_whole(value, least):
            raise self.wrong(column, f"a whole number, {least} or more (at most {MOST:,})")
        return value

    def number(self, column: str, least: float = -math.inf) -> float:
        """A number of `least` or more, at most 1e15 either way. Raises LogFormatError."""
        value = self.values.get(column)
        try:
            number = math.nan if isinstance(value, bool) or value is None else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not (abs(number) <= _LARGEST and number >= least):
            raise self.wrong(column, "a finite number" + (f", {least:g} or more" if math.isfinite(least) else ""))
        return number

    def duration_ms(self, column: str, unit: str) -> float:
        """A time above 0 in ms; `unit` is what the log holds. Raises LogFormatError."""
        milliseconds = self.number(column) * MS_PER_UNIT[unit]
        if not milliseconds > 0:
            raise self.wrong(column, f"a time above 0 {unit}")
        return milliseconds

    def text(self, column: str) -> str:
        """Text that is not empty. Raises LogFormatError."""
        value = self.values.get(column)
        if not isinstance(value, str) or not value:
            raise self.wrong(column, "text")
        return value

    def items(self, column: str) -> list[Any]:
        """A JSON list. Raises LogFormatError."""
        value = self.values.get(column)
        if not isinstance(value, list):
            raise self.wrong(column, "a list")
        return value

    def within(self, column: str) -> Record:
        """The JSON object in `column` as a record of its own. Raises LogFormatError."""
        value = self.values.get(column)
        if not isinstance(value, dict):
            raise self.wrong(column, "an object")
        return Record(self.source, self.place, value, f"{self.inside}{column}.")


class LeftOut:
    """Rows that are no timed iteration, counted by reason, with the place of the first."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, str]] = {}

    def add(self, reason: str, place: str) -> None:
        count, first = self._found.get(reason, (0, place))
        self._found[reason] = (count + 1, first)

    def counts(self) -> dict[str, int]:
        return {reason: count for reason, (count, _) in self._found.items()}

    def lines(self) -> list[str]:
        """For people: `3 rows: nothing scheduled (first: line 17)`."""
        return [f"{count:,} rows: {reason} (first: {first})" for reason, (count, first) in self._found.items()]


def is_whole(value: object, least: int) -> TypeGuard[int]:
    """Whether a value is an integer from `least` to MOST."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= MOST


def _short(text: str) -> str:
    return text if len(text) <= 120 else text[:117] + "..."
