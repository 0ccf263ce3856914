"""Policies by text: `fixed-256`, `token_budget-512`, `sloweave:prefills=1`. `-` and `_` are alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...files.errors import UsageError
from ...tables.lookup import TICKS_PER_MS, WEIGHT_ONE
from ..cost.record import NO_LIMIT
from ..workloads.spec import split_spec
from . import decide
from .options import CHOICES, MS, PER_S, Option, checked, from_text, stem, text_of
from .parameters import PARAMETERS, PRIORITIES


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
        """The text that `policy` makes this of: family, number, and the options that differ from the defaults."""
        family = FAMILIES[self.family]
        number = "" if family.number is None else f"-{self.options[family.number]}"
        changed = [
            text_of(option, value)
            for option, value in self.options.items()
            if option != family.number and value != family.options[option]
        ]
        return self.family + number + (f":{','.join(changed)}" if changed else "")

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
            elif option.endswith(PER_S):
                record[stem(option)] = float(value) / (1000 * TICKS_PER_MS)  # type: ignore[arg-type]
            elif option.endswith(MS):
                record[stem(option)] = round(float(value) * TICKS_PER_MS)  # type: ignore[arg-type]
            else:
                record[option] = value
        return record


def policy(text: str, **options: Option) -> Policy:
    """The policy of that text, with options in place of its own.

    Raises UsageError for an unknown name or option, or a value that cannot be meant.

    >>> policy("fixed_64").name, policy("sloweave:prefills=1", aging_ms=20.0).name
    ('fixed-64', 'sloweave:prefills=1,aging=20ms')
    """
    name, said = split_spec(text, "policy", "sloweave:prefills=1")
    found, number = name.lower(), None
    if found not in FAMILIES:
        found, _, number = found.rpartition("-")
    family = FAMILIES.get(found)
    if family is None or (number is not None and (family.number is None or not number.isdecimal())):
        names = ", ".join(name if f.number is None else f"{name}-N" for name, f in FAMILIES.items())
        raise UsageError(f"policy {name!r} is unknown; expected one of {names}")
    values = dict(family.options)
    full_names = {stem(option): option for option in values}
    given: dict[str, Option] = {}
    if number is not None and family.number is not None:
        given[family.number] = int(number)
    for option, value in said.items():
        option = full_names.get(option, option)
        given[option] = from_text(found, option, value, values[option]) if option in values else value
    for option, chosen in (given | options).items():
        if option not in values:
            known = ", ".join(map(stem, values))
            raise UsageError(f"policy {found} has no option {option!r}; it has {known}")
        values[option] = checked(found, option, chosen, values[option])
    return Policy(found, values)
