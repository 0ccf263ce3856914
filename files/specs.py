"""One grammar for `name:option=value,option=value`, and types of values with their units: 25ms, 85/s, 1.5x, 5%.

A policy, a workload or a cost is a frozen model of its options (`OptionsModel`): `read_options` makes it of texts and
`OptionsModel.texts` writes them again. Lists are written `40ms/80ms`. `-` and `_` are alike in names and choices.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import core_schema

from .errors import UsageError
from .units import MS_PER, milliseconds

LARGEST_COUNT = 10**9
UNIT_ENDINGS = ("_ms", "_per_s")  # of field names; an option's text carries the unit in its value


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
        written = core_schema.plain_serializer_function_ser_schema(self.write, when_used="json")
        return core_schema.no_info_plain_validator_function(self.read, serialization=written)


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
    return float(text[:-1]) / 100 if text.endswith("%") else float(text)


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
    range: str = "",
) -> Unit:
    """A number from `least` to `most`. above: the least itself is refused."""

    def allowed(value: Any) -> bool:
        known = isinstance(value, int | float) and not isinstance(value, bool)
        return known and least <= value <= most and not (above and value == least)

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


def option_name(field: str) -> str:
    """The option of a field: `aging_ms` is `aging`, since its text carries the unit."""
    for ending in UNIT_ENDINGS:
        field = field.removesuffix(ending)
    return field


class OptionsModel(BaseModel):
    """OptionsModel as a frozen model: fields annotated with a Unit. Fields are given by field or by option name."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=option_name, validate_by_name=True, validate_by_alias=True
    )

    def texts(self, *, given: bool = False) -> dict[str, str]:
        """Option texts of the values that differ from the defaults. given: of all values that were given."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=not given, exclude_unset=given)

    @classmethod
    def option_names(cls) -> list[str]:
        return [field.alias or name for name, field in cls.model_fields.items()]


Model = TypeVar("Model", bound=OptionsModel)


def read_options(model: type[Model], given: Mapping[str, Any], where: str) -> Model:
    """The model of texts or values by option or field name. Raises UsageError that begins with `where`."""
    names = model.option_names()
    for option in given:
        if option not in names and option not in model.model_fields:
            close = difflib.get_close_matches(option, names, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise UsageError(f"{where}: option {option!r} is unknown; expected {', '.join(names)}{hint}")
    try:
        return model(**given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        expected = str(first["ctx"]["error"])
        raise UsageError(f"{where}: {first['loc'][0]} {first['input']!r}: expected {expected}") from error


def split(text: str, what: str, example: str) -> tuple[str, dict[str, str]]:
    """Name and option texts. what: the noun of messages. Raises UsageError for another form, and a repeated option."""
    name, colon, rest = text.partition(":")
    return name.strip().replace("_", "-"), split_options(rest, f"{what} {text!r}", example) if colon else {}


def split_options(text: str, where: str, example: str) -> dict[str, str]:
    """`option=value,option=value`. Raises UsageError that begins with `where`."""
    texts: dict[str, str] = {}
    for part in text.split(","):
        option, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not option or not value:
            raise UsageError(f"{where}: {part!r}; expected option=value, as in {example}")
        option = option.replace("-", "_")
        if option in texts:
            raise UsageError(f"{where}: {option} is given twice; expected once")
        texts[option] = value
    return texts


def join(name: str, texts: Mapping[str, str]) -> str:
    """`name:option=value,option=value`, or the name alone."""
    return name + (":" + ",".join(f"{option}={text}" for option, text in texts.items()) if texts else "")


def split_list(text: str, where: str) -> list[str]:
    """`a,b:x=1,y=2,c` -> a; b:x=1,y=2; c. A part that is `option=value` belongs to the text before it.

    Raises UsageError for an empty part, or a repeated one.
    """
    found: list[str] = []
    for part in text.split(","):
        if "=" in part and ":" not in part.partition("=")[0] and found:
            found[-1] += f",{part}"
        else:
            found.append(part.strip())
    if not all(found) or len(set(found)) < len(found):
        raise UsageError(f"{where} {text!r}: expected different texts joined by commas")
    return found
