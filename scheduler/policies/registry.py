"""Policies by name: `fixed-256`, `token_budget-512`, `sloweave:prefills=1`. `-` and `_` are alike.

One compiled function (`decide`) stands before all policies, so one compiled loop serves them all. A new policy is a
file with its options and functions, a line in FAMILIES and a branch in `decide`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...files.errors import UsageError
from ...files.specs import join, option_name, read_options, split
from ...tables.lookup import WEIGHT_ONE
from ..compiled import compiled
from ..cost.cost_record import NO_LIMIT, Cost
from ..serving_state import State
from .policy_options import PolicyOptions
from .qoserve import QoServeOptions, priority, qoserve
from .slidingserve import SlidingServeOptions, slidingserve
from .sloweave import SLOWeaveOptions, admits, sloweave
from .static import FixedOptions, FullOptions, SarathiOptions, TokenBudgetOptions, fixed, sarathi_edf, token_budget

FAMILIES: dict[str, type[PolicyOptions]] = {
    "full": FullOptions,
    "fixed": FixedOptions,
    "token-budget": TokenBudgetOptions,
    "sarathi-edf": SarathiOptions,
    "sloweave": SLOWeaveOptions,
    "slidingserve": SlidingServeOptions,
    "qoserve": QoServeOptions,
}
FULL, FIXED, TOKEN_BUDGET, SARATHI_EDF, SLOWEAVE, SLIDINGSERVE, QOSERVE = range(len(FAMILIES))

_STORED = {option_name(name): stored for model in FAMILIES.values() for name, stored in model.stored().items()}
# The options of all policies as one record, in the units of the state.
PARAMETERS = np.dtype([("family", "i8"), *((name, each.dtype, each.shape) for name, each in _STORED.items())])


@dataclass(frozen=True, slots=True)
class Policy:
    """A family of policies with its options. Results are filed under `name`."""

    family: str
    model: PolicyOptions

    @property
    def name(self) -> str:
        """The text that `policy` makes this of: family, number, and the options that differ from the defaults."""
        texts, number = self.model.texts(), self.model.number
        if number is None:
            return join(self.family, texts)
        texts.pop(number, None)
        return join(f"{self.family}-{getattr(self.model, number)}", texts)

    @property
    def options(self) -> dict[str, Any]:
        """All options by field name."""
        return self.model.model_dump()

    def parameters(self) -> NDArray[Any]:
        """PARAMETERS (1,)."""
        record = np.zeros(1, PARAMETERS)
        record["family"] = list(FAMILIES).index(self.family)
        record["chunk_tokens"] = NO_LIMIT
        record["margin"] = WEIGHT_ONE
        for name, stored in self.model.stored().items():
            record[option_name(name)] = stored.value(getattr(self.model, name))
        return record


def policy(text: str, **options: Any) -> Policy:
    """The policy of that text, with options in place of its own.

    Raises UsageError for an unknown name or option, or an impossible value.

    >>> policy("fixed_64").name, policy("sloweave:prefills=1", aging_ms=20.0).name
    ('fixed-64', 'sloweave:prefills=1,aging=20ms')
    """
    name, texts = split(text, "policy", "sloweave:prefills=1")
    family, number = name.lower(), None
    if family not in FAMILIES:
        family, _, number = family.rpartition("-")
    model = FAMILIES.get(family)
    if model is None or (number is not None and (model.number is None or not number.isdecimal())):
        names = ", ".join(each if m.number is None else f"{each}-N" for each, m in FAMILIES.items())
        raise UsageError(f"policy {name!r} is unknown; expected one of {names}")
    given: dict[str, Any] = {} if number is None or model.number is None else {model.number: int(number)}
    given |= {option_name(option): value for option, value in (texts | options).items()}
    return Policy(family, read_options(model, given, f"policy {family}"))


@compiled
def decide(state: State, cost: Cost) -> int:
    """Gives prompt tokens to queued requests (`chunk`, `slots[CHOSEN]`); every decode gets its token anyway.

    cost: the policy's. 0, or OUTSIDE where its domain does not hold the decodes alone.
    """
    s = state.scalars[0]
    s["chosen"] = 0
    s["chunk_tokens"] = 0
    s["prefix_tokens"] = 0
    if not s["queued"]:
        return 0
    family = state.parameters[0]["family"]
    if family == SLOWEAVE:
        return sloweave(state, cost)
    if family == SLIDINGSERVE:
        return slidingserve(state, cost)
    if family == QOSERVE:
        return qoserve(state, cost)
    if family == TOKEN_BUDGET:
        token_budget(state)
    elif family == SARATHI_EDF:
        sarathi_edf(state)
    else:
        fixed(state)
    return 0


@compiled
def place(state: State, slot: int) -> None:
    """Sets the request's key in the prefill queue."""
    request = state.requests[slot]
    family = state.parameters[0]["family"]
    if family in (SARATHI_EDF, SLIDINGSERVE):
        request["key"] = min(request["first_deadline"], request["last_deadline"])
    elif family == QOSERVE:
        request["key"] = priority(state, request)
    else:
        request["key"] = request["arrival"]


@compiled
def accepts(state: State, cost: Cost, slot: int) -> bool:
    """Whether the policy takes a request that has just arrived."""
    return not state.parameters[0]["admission"] or admits(state, cost, slot)


@compiled
def observe(state: State, ticks: int) -> None:
    """Moves the average throughput of prefill, tokens per tick, by the iteration that the policy decided."""
    s = state.scalars[0]
    decay = state.parameters[0]["throughput_decay"]
    if not decay or not s["chunk_tokens"]:
        return
    now = s["chunk_tokens"] / ticks
    s["throughput"] = decay * s["throughput"] + (1.0 - decay) * now if s["throughput"] else now
