"""Policies by name: `fixed-256`, `token-budget-512`, `sloweave`. `-` and `_` are alike, the parameter comes last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...tables.errors import UsageError
from ...tables.lookup import TICKS_PER_MS, WEIGHT_ONE
from ..cost.record import NO_LIMIT
from ..state import LEAVE_OUT, PER_TOKEN, REBASE, SCHEDULE
from . import decide
from .parameters import PARAMETERS, PRIORITIES

CHOICES = {
    "deadline": {"per_token": PER_TOKEN, "schedule": SCHEDULE},
    "late": {"rebase": REBASE, "leave_out": LEAVE_OUT},
    "variant": {"paper": 0, "code": 1},
}
Option = bool | int | float | str | tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Family:
    """code: of decide.py. number: the option that a trailing number sets. options: with their defaults."""

    code: int
    number: str | None = None
    options: Mapping[str, Option] = field(default_factory=dict)


FAMILIES: dict[str, Family] = {
    "full": Family(decide.FULL, options={"prefills": 1}),
    "fixed": Family(decide.FIXED, "chunk_tokens", {"chunk_tokens": 256, "prefills": 1}),
    "token-budget": Family(decide.TOKEN_BUDGET, "token_budget", {"token_budget": 512}),
    "sarathi-edf": Family(decide.SARATHI_EDF, "token_budget", {"token_budget": 256}),
    "sloweave": Family(
        decide.SLOWEAVE,
        options={
            "deadline": "per_token",
            "chunk_tokens": 4096,
            "prefills": 8,
            "align": 1,
            "margin": (0.0,) * PRIORITIES,
            "aging_ms": 0.0,
            "admission": False,
        },
    ),
    "slidingserve": Family(
        decide.SLIDINGSERVE,
        "token_budget",
        {
            "token_budget": 512,
            "deadline": "schedule",
            "late": "rebase",
            "sorter": True,
            "chunker": True,
            "constructor": True,
            "urgency": 0.3,
            "throughput_decay": 0.95,
        },
    ),
    "qoserve": Family(
        decide.QOSERVE,
        "token_budget",
        {
            "token_budget": 2552,
            "deadline": "schedule",
            "variant": "paper",
            "alpha_ms": 8.0,
            "throughput_per_s": 8500.0,
            "throughput_decay": 0.995,
        },
    ),
}


@dataclass(frozen=True, slots=True)
class Policy:
    """A family with all its options. `name` is what its results are filed under."""

    family: str
    options: Mapping[str, Option]

    @property
    def name(self) -> str:
        """The family, its number if it has one, and the options that differ from the defaults."""
        family = FAMILIES[self.family]
        number = "" if family.number is None else f"-{self.options[family.number]}"
        changed = [
            f"{option}={value}"
            for option, value in self.options.items()
            if option != family.number and value != family.options[option]
        ]
        return self.family + number + (f"[{','.join(changed)}]" if changed else "")

    def parameters(self) -> NDArray[Any]:
        """PARAMETERS (1,), in the units of the state."""
        record = np.zeros(1, PARAMETERS)
        record["family"] = FAMILIES[self.family].code
        record["chunk_tokens"] = NO_LIMIT
        record["margin"] = WEIGHT_ONE
        for option, value in self.options.items():
            if option in CHOICES:
                record[option] = CHOICES[option][str(value)]
            elif option == "margin":
                record["margin"] = np.ceil((1 + np.asarray(value)) * WEIGHT_ONE - 1e-9)
            elif option.endswith("_per_s"):
                record[option.removesuffix("_per_s")] = float(value) / (1000 * TICKS_PER_MS)  # type: ignore[arg-type]
            elif option.endswith("_ms"):
                record[option.removesuffix("_ms")] = round(float(value) * TICKS_PER_MS)  # type: ignore[arg-type]
            else:
                record[option] = value
        return record


def policy(name: str, **options: Option) -> Policy:
    """The policy of that name, with options in place of its defaults.

    Raises UsageError for an unknown name or option, or a value that cannot be meant.

    >>> policy("fixed_64").name, policy("sloweave", prefills=1).name
    ('fixed-64', 'sloweave[prefills=1]')
    """
    wanted = name.replace("_", "-").lower()
    found, number = wanted, None
    if wanted not in FAMILIES:
        found, _, number = wanted.rpartition("-")
    family = FAMILIES.get(found)
    if family is None or (number is not None and (family.number is None or not number.isdecimal())):
        names = ", ".join(name if f.number is None else f"{name}-N" for name, f in FAMILIES.items())
        raise UsageError(f"policy {name!r} is unknown; expected one of {names}")
    if number is not None and family.number is not None:
        options = {family.number: int(number), **options}
    values = dict(family.options)
    for option, value in options.items():
        if option not in values:
            raise UsageError(f"policy {found} has no option {option!r}; it has {', '.join(values) or 'none'}")
        values[option] = _checked(found, option, value, values[option])
    return Policy(found, values)


def _checked(found: str, option: str, value: Option, default: Option) -> Option:
    """The value, of its default's type. Raises UsageError."""
    if option in CHOICES:
        if value not in CHOICES[option]:
            raise UsageError(f"policy {found}: {option} is {value!r}; expected one of {', '.join(CHOICES[option])}")
        return value
    if option == "margin":
        margin = tuple(float(m) for m in value) if isinstance(value, tuple | list) else ()
        if len(margin) != PRIORITIES or not all(0 <= m < 10 for m in margin):
            raise UsageError(
                f"policy {found}: margin is {value!r}; expected {PRIORITIES} shares from 0, for priority 0 on"
            )
        return margin
    if isinstance(default, bool):
        good = isinstance(value, bool)
    elif isinstance(default, int):
        good = isinstance(value, int) and not isinstance(value, bool) and 1 <= value < NO_LIMIT
    else:
        good = isinstance(value, int | float) and 0 <= value < 1e9
    if not good:
        raise UsageError(f"policy {found}: {option} is {value!r}; expected a value like {default!r}")
    return value
