"""Options of commands: groups that commands share are dataclasses, values with units are annotated with their unit."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from ..files.units import OPEN_SHARE, SHARE, SHARE_BELOW_ALL, Unit, duration, number, read_option

Time = Annotated[float, duration(above=True)]  # ms
TimeFromZero = Annotated[float, duration(above=False)]  # ms
Share = Annotated[float, SHARE]
ShareBelowAll = Annotated[float, SHARE_BELOW_ALL]
OpenShare = Annotated[float, OPEN_SHARE]
MinutesAboveZero = Annotated[float, number("a number of minutes above 0, such as 2", above=True)]

AllowRefuted = Annotated[
    bool, typer.Option("--allow-refuted", help="Take a table whose verdict is 'do not use' all the same.")
]
Coverage = Annotated[OpenShare, typer.Option(help="Share of iterations the bound must cover.")]
Model = Annotated[
    str | None,
    typer.Option(
        help="Preset, or a Hugging Face config.json. Default: tiny, on cuda llama-3.2-1b.", show_default=False
    ),
]
Attention = Annotated[
    str | None,
    typer.Option(
        help="Attention backend: torch or triton (see `chunkfit doctor`). Default: triton on a "
        "GPU it can use, else torch.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class MeasureOptions:
    """What `run` and `profile` ask of a measurement."""

    device: Annotated[str, typer.Option(help="auto, cuda, cpu or synthetic (a formula, for trying the tool).")] = "auto"
    model: Model = None
    attention: Attention = None
    minutes: Annotated[
        MinutesAboveZero | None, typer.Option(help="Time budget of the measurement, process starts included.")
    ] = 2.0
    points: Annotated[int, typer.Option(help="Points of each session; 299 calibration points certify 99%.")] = 1000
    tolerance: Annotated[
        Share,
        typer.Option(
            help="Fit points are added where held-out error is largest, until no cell of the domain has more than this "
            "or time or points are spent."
        ),
    ] = 0.01
    traffic: Annotated[
        Path | None,
        typer.Option(
            help="CSV with columns n,k,c,u,weight: where fit points matter, and the scenes' shares of calibrate and "
            "test."
        ),
    ] = None
    seed: Annotated[int, typer.Option(help="Decides the plan.")] = 0
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted measurement.")] = False
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a finished result.")] = False

    @property
    def budget_s(self) -> float | None:
        return None if self.minutes is None else 60 * self.minutes


def default_model(device: str) -> str:
    """The tiny model, since a CPU needs minutes for a real one; a real one on a GPU."""
    return "llama-3.2-1b" if device == "cuda" else "tiny"


def flattened(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer reads it.

    A parameter whose type is a dataclass becomes one option for each field. A parameter annotated with a Unit becomes
    a text, which the unit reads when the command is called: UsageError names the option.
    """
    parameters: dict[str, inspect.Parameter] = {}
    groups: dict[str, type] = {}
    units: dict[str, tuple[str, Unit]] = {}
    for name, hint, default in _parameters(command):
        members = [(name, hint, default)]
        if isinstance(hint, type) and is_dataclass(hint):
            groups[name] = hint
            members = list(_fields(hint))
        for member, member_hint, value in members:
            unit = next(_found(member_hint, Unit), None)
            if unit is not None:
                option = next(_found(member_hint, typer.models.OptionInfo))
                texts = (option.default, *(option.param_decls or ()))  # typer takes the first name for the default
                named = [text for text in texts if isinstance(text, str) and text.startswith("--")]
                units[member] = (named[0] if named else "--" + member.replace("_", "-"), unit)
                text = str if type(None) not in _types(member_hint) else str | None
                member_hint = Annotated[text, option]
                value = unit.write(value) if isinstance(value, int | float) else value
            parameters[member] = inspect.Parameter(
                member, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=member_hint
            )

    @functools.wraps(command)
    def run(**given: Any) -> None:
        for member, (option, unit) in units.items():
            if given[member] is not None:
                given[member] = read_option(unit, given[member], option)
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    run.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]  # typer reads it
    run.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    return run


def _parameters(command: Callable[..., None]) -> Iterator[tuple[str, Any, Any]]:
    """Name, type and default of each parameter."""
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        yield name, hints[name], parameter.default


def _fields(group: type) -> Iterator[tuple[str, Any, Any]]:
    """The same of the fields of a dataclass; each has a default."""
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        yield field.name, hints[field.name], field.default


def _types(hint: Any) -> Iterator[Any]:
    """Everything that a type is made of, annotations included."""
    yield hint
    for part in get_args(hint):
        yield from _types(part)


def _found(hint: Any, kind: type[Any]) -> Iterator[Any]:
    return (part for part in _types(hint) if isinstance(part, kind))
