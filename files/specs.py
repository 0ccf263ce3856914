"""One grammar for `name:option=value,option=value`; files/units.py reads the values: 25ms, 85/s, 1.5x, 5%.

A policy, a workload or a cost is a frozen model of its options (`OptionsModel`): `read_options` makes it of texts and
`OptionsModel.texts` writes them again. Lists are written `40ms/80ms`. `-` and `_` are alike in names and choices.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from .errors import UsageError

UNIT_ENDINGS = ("_ms", "_per_s")  # of field names; an option's text carries the unit in its value


def option_name(field: str) -> str:
    """The option of a field: `aging_ms` is `aging`, since its text carries the unit."""
    for ending in UNIT_ENDINGS:
        field = field.removesuffix(ending)
    return field


class OptionsModel(BaseModel):
    """Options as a frozen model: fields annotated with a Unit. Fields are given by field or by option name."""

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
