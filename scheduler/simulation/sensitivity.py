"""One parameter of a study at several values: a policy's option, or how far the costs are from the truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...files.errors import UsageError
from ...files.specs import join, split
from ..cost.named_costs import split_cost
from ..policies import policy


@dataclass(frozen=True, slots=True)
class Texts:
    """Of one study: what a value of the parameter changes."""

    policy: str
    belief: str
    truth: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """values: tried unless others are asked for. set: the texts with a value in them."""

    help: str
    values: tuple[str, ...]
    set: Callable[[Texts, str], Texts]


def _option(*names: str) -> Callable[[Texts, str], Texts]:
    """The first of the options that the policy has."""

    def set_option(texts: Texts, value: str) -> Texts:
        known = policy(texts.policy).model.option_names()
        for name in names:
            if name in known:
                return replace(texts, policy=_with(texts.policy, name, value))
        raise UsageError(
            f"policy {texts.policy}: it has no {' or '.join(names)} to vary; expected a policy that has, or another "
            "--parameter"
        )

    return set_option


def _margin(texts: Texts, value: str) -> Texts:
    """The same of every priority."""
    return _option("margin")(texts, "/".join([value] * 4))


def _window(texts: Texts, value: str) -> Texts:
    """Iterations that a moving average of the throughput remembers: it keeps 1 - 1 / window of itself."""
    if not value.isdecimal() or int(value) < 1:
        raise UsageError(f"window {value!r}; expected a whole number of iterations, such as 20")
    return _option("throughput_decay")(texts, repr(1 - 1 / int(value)))


def _bias(texts: Texts, value: str) -> Texts:
    """Of what the policy asks; a truth that is `same` has the source of it, and stays."""
    return replace(texts, belief=_cost_with(texts.belief, "factor", value))


def _noise(texts: Texts, value: str) -> Texts:
    return replace(texts, truth=_cost_with(texts.truth, "noise", value))


PARAMETERS: dict[str, Parameter] = {
    "margin": Parameter("of sloweave, on every priority", ("0", "0.02", "0.05", "0.1", "0.2"), _margin),
    "bias": Parameter(
        "factor on what the policy asks", ("0.8x", "0.9x", "0.95x", "1x", "1.05x", "1.1x", "1.2x"), _bias
    ),
    "noise": Parameter("of what iterations take", ("0%", "1%", "3%", "5%", "10%"), _noise),
    "alpha": Parameter(
        "share of the slack from which slidingserve takes a prefill for urgent",
        ("0.1", "0.2", "0.3", "0.5", "0.8"),
        _option("urgency"),
    ),
    "alpha-ms": Parameter("of qoserve, per remaining token", ("1ms", "4ms", "8ms", "16ms"), _option("alpha")),
    "window": Parameter(
        "iterations of the throughput average of slidingserve and qoserve", ("5", "10", "20", "50", "200"), _window
    ),
    "B": Parameter(
        "token budget, or the chunk of fixed and sloweave",
        ("128", "256", "512", "1024", "2048", "4096"),
        _option("token_budget", "chunk_tokens"),
    ),
}


def parameter(name: str) -> Parameter:
    """Raises UsageError for an unknown name."""
    found = PARAMETERS.get(name.replace("_", "-"))
    if found is None:
        known = "; ".join(f"{each}, {PARAMETERS[each].help}" for each in PARAMETERS)
        raise UsageError(f"parameter {name!r} is unknown; expected one of: {known}")
    return found


def _with(text: str, option: str, value: str) -> str:
    name, texts = split(text, "policy", "sloweave:prefills=1")
    return join(name, texts | {option: value})


def _cost_with(text: str, option: str, value: str) -> str:
    source, texts = split_cost(text)
    return join(source, texts | {option: value})
