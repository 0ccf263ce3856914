"""Options of policies: which values can be meant, and how they are written in a policy's text.

Texts are those of workloads: `aging=20ms`, `throughput=8500/s`, `sorter=no`, lists as `0.1/0/0/0`.
"""

from __future__ import annotations

from ...files.errors import UsageError
from ...files.units import milliseconds
from ..cost.record import NO_LIMIT
from ..serving_state import LEAVE_OUT, PER_TOKEN, REBASE, SCHEDULE
from .parameters import PRIORITIES

Option = bool | int | float | str | tuple[float, ...]
CHOICES = {
    "deadline": {"per_token": PER_TOKEN, "schedule": SCHEDULE},
    "late": {"rebase": REBASE, "leave_out": LEAVE_OUT},
    "variant": {"paper": 0, "code": 1},
}
SWITCH = {"yes": True, "no": False}
MS, PER_S = "_ms", "_per_s"  # endings of options with a unit, which their texts carry instead


def checked(where: str, option: str, value: Option, default: Option) -> Option:
    """The value, of its default's type. Raises UsageError naming the option."""
    if option in CHOICES:
        good = value in CHOICES[option]
        expected = f"one of {', '.join(CHOICES[option])}"
    elif isinstance(default, tuple):
        good = isinstance(value, tuple) and len(value) == PRIORITIES and all(0 <= m < 10 for m in value)
        expected = f"{PRIORITIES} shares from 0, for priority 0 on"
    elif isinstance(default, bool):
        good = isinstance(value, bool)
        expected = "yes or no"
    elif isinstance(default, int):
        good = isinstance(value, int) and not isinstance(value, bool) and 1 <= value < NO_LIMIT
        expected = "a whole number from 1"
    else:
        good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9
        expected = "a number from 0"
    if not good:
        raise UsageError(f"policy {where}: {option} is {value!r}; expected {expected}")
    return value


def stem(option: str) -> str:
    """Its name in a text."""
    return option.removesuffix(MS).removesuffix(PER_S)


def text_of(option: str, value: Option) -> str:
    """`option=value` as `from_text` reads it."""
    if isinstance(value, bool):
        text = "yes" if value else "no"
    elif isinstance(value, tuple):
        text = "/".join(_number(m) for m in value)
    else:
        unit = "ms" if option.endswith(MS) else "/s" if option.endswith(PER_S) else ""
        text = value if isinstance(value, str) else _number(value) + unit
    return f"{stem(option)}={text}"


def from_text(where: str, option: str, text: str, default: Option) -> Option:
    """The value, of its default's type, not yet checked. Raises UsageError for a text that cannot be read."""
    try:
        if option in CHOICES:
            return text.replace("-", "_")
        if isinstance(default, tuple):
            return tuple(float(part) for part in text.split("/"))
        if isinstance(default, bool):
            return SWITCH[text]
        if isinstance(default, int):
            return int(text)
        if option.endswith(MS):
            return milliseconds(text, stem(option))
        return float(text.removesuffix("/s") if option.endswith(PER_S) else text)
    except (KeyError, ValueError):
        written = text_of(option, default)
        raise UsageError(f"policy {where}: {stem(option)} {text!r}; expected a text like {written}") from None


def _number(value: float) -> str:
    short = f"{value:g}"
    return short if float(short) == value else repr(value)
