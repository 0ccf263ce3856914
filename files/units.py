"""Values with their units, as options write them: 25ms, 2m, 85/s, 1.5x, 5% or 0.05, yes. Pydantic fields and options of
commands are annotated with them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from .errors import UsageError

if TYPE_CHECKING:
    from pydantic_core import core_schema

MS_PER = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4, "h": 3.6e6}
LARGEST_COUNT = 10**9


class Refused(ValueError):
    """A value that an option cannot have. The message says what was expected."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Annotates a field: how its value is read from text, checked and written.

    parse: text to value; ValueError, KeyError and UsageError refuse the text. form, range: what was expected of a text
    that cannot be read, and of a value that is not `allowed`.
    """

    parse: Callable[[str], Any]
    write: Callable[[Any], str]
    allowed: Callable[[Any], bool]
    form: str
    range: str = ""

    def read(self, value: Any) -> Any:
        """The value itself, or the value of a text. Raises Refused."""
        if isinstance(value, str):
            try:
                value = self.parse(value.strip())
            except Refused:
                raise
            except (ValueError, KeyError, UsageError) as error:
                raise Refused(self.form) from error
        if not self.allowed(value):
            raise Refused(self.range or self.form)
        return value

    def list(self, length: int | None = None, form: str = "") -> Unit:
        """Values joined by `/`, as a tuple. length: of every list, which `form` says."""

        def allowed(values: Any) -> bool:
            known = isinstance(values, tuple) and length in (None, len(values))
            return known and all(map(self.allowed, values))

        return Unit(
            lambda text: tuple(self.read(part) for part in text.split("/")),
            lambda values: "/".join(map(self.write, values)),
            allowed,
            form or self.form,
        )

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        from pydantic_core import core_schema

        written = core_schema.plain_serializer_function_ser_schema(self.write, when_used="json")
        return core_schema.no_info_plain_validator_function(self.read, serialization=written)


def milliseconds(text: str, option: str) -> float:
    """`25ms` -> 25.0. Raises UsageError naming the option: a bare number has no unit and is refused."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:e-?[0-9]+)?)\s*([a-z]+)\s*", text)
    value = float(match[1]) * MS_PER.get(match[2], math.nan) if match else math.nan
    if not math.isfinite(value):
        raise UsageError(
            f"{option} {text!r}: expected a number with its unit ({', '.join(MS_PER)}), such as 25ms or 2m"
        )
    return value


def short(value: float) -> str:
    """The shortest text that reads as the same number."""
    text = f"{value:g}"
    return text if float(text) == value else repr(value)


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError(text)
    return int(text)


def _factor(text: str) -> float:
    if not text.endswith("x"):
        raise ValueError(text)
    return float(text[:-1])


def _share(text: str) -> float:
    return float(f"{text[:-1]}e-2") if text.endswith("%") else float(text)  # 99.9% is 0.999 to the last bit


def _share_text(value: float) -> str:
    text = f"{100 * value:g}%"
    return text if _share(text) == value else repr(value)


def _duration_text(value_ms: float) -> str:
    unit = "ms" if value_ms < MS_PER["s"] else "s"
    text = short(value_ms / MS_PER[unit]) + unit
    return text if milliseconds(text, "") == value_ms else f"{value_ms!r}ms"


def choice(*names: str) -> Unit:
    """One of these texts."""
    known = {name.replace("_", "-"): name for name in names}
    return Unit(
        lambda text: known[text.replace("_", "-")], str, lambda value: value in names, f"one of {', '.join(names)}"
    )


def number(
    form: str,
    write: Callable[[Any], str] = short,
    parse: Callable[[str], Any] = float,
    *,
    least: float = 0.0,
    most: float = 1e9,
    above: bool = False,
    below: bool = False,
    range: str = "",
) -> Unit:
    """A number from `least` to `most`. above: the least itself is refused; below: the most itself."""

    def allowed(value: Any) -> bool:
        known = isinstance(value, int | float) and not isinstance(value, bool)
        return known and least <= value <= most and not (above and value == least) and not (below and value == most)

    return Unit(parse, write, allowed, form, range)


def whole(least: int, most: int = LARGEST_COUNT) -> Unit:
    """A whole number from `least` to `most`."""
    form = f"a whole number from {least:,} to {most:,}"
    real = number(form, least=least, most=most)
    return Unit(_whole, str, lambda value: isinstance(value, int) and real.allowed(value), form)


def duration(*, above: bool) -> Unit:
    """A time in ms. above: 0 is refused."""
    form = f"a number with its unit ({', '.join(MS_PER)}), such as 25ms or 2m"
    range = "a time above 0" if above else "a time from 0"
    return number(form, _duration_text, lambda text: milliseconds(text, ""), most=1e12, above=above, range=range)


def rate(unit: str) -> Unit:
    """A number above 0 for each second, with or without `/s`. unit: what is written behind it."""
    form = "a number above 0 with or without its unit, such as 85 or 85/s"
    return number(form, lambda value: short(value) + unit, lambda text: float(text.removesuffix("/s")), above=True)


def factor(most: float = 1e9) -> Unit:
    """A number above 0 with its x."""
    form = "a factor with its x, " + ("above 0x" if most == 1e9 else f"up to {most:g}x") + ", such as 0.9x"
    return number(form, lambda value: short(value) + "x", _factor, most=most, above=True)


SHARE_FORM = "a share from 0% to 100%, such as 5% or 0.05"
SHARE = number(SHARE_FORM, _share_text, _share, most=1.0)
SHARE_BELOW_ALL = number("a share from 0% to below 100%, such as 5% or 0.05", _share_text, _share, most=1.0, below=True)
OPEN_SHARE = number(
    "a share above 0% and below 100%, such as 99% or 0.99", _share_text, _share, most=1.0, above=True, below=True
)

SWITCH = Unit(
    {"yes": True, "no": False}.__getitem__,
    lambda on: "yes" if on else "no",
    lambda value: isinstance(value, bool),
    "yes or no",
)
Text = Annotated[str, Unit(str, str, lambda value: isinstance(value, str), "a text")]
Count = Annotated[int, whole(1)]
Positive = Annotated[float, number("a number above 0, such as 2", above=True)]
Duration = Annotated[float, duration(above=True)]
Factor = Annotated[float, factor()]
Share = Annotated[float, SHARE]


def percentage(text: str, option: str) -> float:
    """`5%` or `0.05` -> 0.05. Raises UsageError naming the option."""
    return float(read_option(SHARE, text, option))


def read_option(unit: Unit, text: str, option: str) -> Any:
    """The value of an option's text. Raises UsageError naming the option."""
    try:
        return unit.read(text)
    except Refused as error:
        raise UsageError(f"{option} {text!r}: expected {error}") from error
