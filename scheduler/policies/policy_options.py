"""Options of policies: types of values with their form in the compiled record, and the base of every policy's model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from ...files.specs import OptionsModel
from ...files.units import SHARE, SWITCH, Unit, choice, duration, number, rate, short, whole
from ...tables.lookup import TICKS_PER_MS, WEIGHT_ONE

PRIORITIES = 4  # levels with a margin of their own; the last serves all lower ones
_DEADLINES, _LATE, _VARIANTS = ("per_token", "schedule"), ("rebase", "leave_out"), ("paper", "code")


@dataclass(frozen=True, slots=True)
class Stored:
    """Annotates a field: its type in the record that compiled policies read, and its value there."""

    dtype: str
    value: Callable[[Any], Any] = lambda given: given
    shape: tuple[int, ...] = ()


def _margins(shares: tuple[float, ...]) -> list[int]:
    """1 + margin of each priority in 1/4096, rounded up."""
    return [math.ceil((1 + share) * WEIGHT_ONE - 1e-9) for share in shares]


_MARGIN = Unit(SHARE.parse, short, number("", most=10).allowed, "a share from 0")

Flag = Annotated[bool, SWITCH, Stored("i8", int)]
Tokens = Annotated[int, whole(1), Stored("i8")]
Weight = Annotated[float, number("a number from 0"), Stored("f8")]
Milliseconds = Annotated[float, duration(above=False), Stored("i8", lambda ms: round(ms * TICKS_PER_MS))]
PerSecond = Annotated[float, rate("/s"), Stored("f8", lambda per_s: per_s / (1000 * TICKS_PER_MS))]
Margins = Annotated[
    tuple[float, ...],
    _MARGIN.list(PRIORITIES, f"{PRIORITIES} shares from 0, for priority 0 on, such as 0.1/0/0/0"),
    Stored("i8", _margins, (PRIORITIES,)),
]
# The codes are the places: PER_TOKEN and SCHEDULE, REBASE and LEAVE_OUT of serving_state.py.
Deadline = Annotated[str, choice(*_DEADLINES), Stored("i8", _DEADLINES.index)]
Late = Annotated[str, choice(*_LATE), Stored("i8", _LATE.index)]
Variant = Annotated[str, choice(*_VARIANTS), Stored("i8", _VARIANTS.index)]


class PolicyOptions(OptionsModel):
    """number: the option that a number behind the policy's name sets, as in `fixed-256`."""

    number: ClassVar[str | None] = None

    @classmethod
    def stored(cls) -> dict[str, Stored]:
        """By field."""
        return {
            name: next(each for each in field.metadata if isinstance(each, Stored))
            for name, field in cls.model_fields.items()
        }
