"""Where a log's own columns hold n, k, c, u and the latency: columns, numbers, products and quotients of them.

`prompt_size*batch_size`, `kv_tokens/decodes`, `1000`. Quotients are exact; a mean context is rounded up, as
`Batch.context_tokens` does it, every other number of tokens must be whole.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from ...files.errors import LogFormatError, UsageError
from ...files.records import MOST, Record

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Expression:
    """factors: (column or number, whether it divides), from left to right. name: what --map calls it."""

    name: str
    text: str
    factors: tuple[tuple[str | Fraction, bool], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(factor for factor, _ in self.factors if isinstance(factor, str))

    def value(self, record: Record) -> Fraction:
        """Exact. Raises LogFormatError when a column holds no number of 0 or more, or divides by 0."""
        product = Fraction(1)
        for factor, divides in self.factors:
            number = Fraction(record.number(factor, 0)) if isinstance(factor, str) else factor
            if divides and not number:
                raise record.wrong(str(factor), f"a number above 0, {self.name} = {self.text} divides by it")
            product = product / number if divides else product * number
        return product

    def tokens(self, record: Record, *, least: int = 0, mean: bool = False) -> int:
        """The value as a whole number; a mean is rounded up. Raises LogFormatError."""
        value = self.value(record)
        if not least <= value <= MOST or (value.denominator != 1 and not mean):
            raise LogFormatError(
                f"{record.source}: {record.place}, column {self.text}: {self.name} = {float(value):g}; expected a "
                f"whole number, {least} or more (at most {MOST:,}): correct the row or remove it"
            )
        return math.ceil(value)


def parse(name: str, text: str) -> Expression:
    """Raises UsageError for what is no product of columns and numbers."""
    parts = re.split(r"([*/])", text)
    factors: list[tuple[str | Fraction, bool]] = []
    for index in range(0, len(parts), 2):
        factor = parts[index].strip()
        divides = index > 0 and parts[index - 1] == "/"
        number = Fraction(factor) if _NUMBER.fullmatch(factor) else None
        if not factor or (divides and number == 0):
            raise UsageError(f"--map {name}={text!r}: expected a column, a number, or several joined by * and /")
        factors.append((factor if number is None else number, divides))
    return Expression(name, text, tuple(factors))


def parse_number(name: str, text: str, least: int = 0) -> int:
    """A whole number of `least` or more that the user states because the log does not say it. Raises UsageError."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < least:
        raise UsageError(
            f"--map {name}={text!r}: no column of this format; expected a whole number of tokens, {least} or more"
        )
    return int(text)


def pairs(text: str, option: str) -> dict[str, str]:
    """`n=decodes,k=1000` -> names and texts. Raises UsageError for a part without =, or a name twice."""
    found: dict[str, str] = {}
    for part in text.split(",") if text else []:
        name, equals, value = part.partition("=")
        if not equals or not name.strip() or not value.strip() or name.strip() in found:
            raise UsageError(f"{option} {text!r}: {part!r}; expected different NAME=VALUE joined by commas")
        found[name.strip()] = value.strip()
    return found


def where_text(where: Mapping[str, str]) -> str:
    return ", ".join(f"{column}={value}" for column, value in where.items())


def selected(record: Record, where: Mapping[str, str]) -> bool:
    """Whether a row has the values asked for, as text or as numbers. Raises LogFormatError for no such column."""
    for column, wanted in where.items():
        if column not in record.values:
            raise record.wrong(column, f"a column to compare with {wanted!r}")
        value = record.values[column]
        if str(value) != wanted and not (_number(value) == _number(wanted) is not None):
            return False
    return True


def _number(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None
