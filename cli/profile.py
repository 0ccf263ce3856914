"""`chunkfit profile`: measure a device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import MeasureOptions
from .output import JsonFlag, Result, emit, grid

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..profiler.profile import Profile


@dataclass(frozen=True)
class WrittenProfile(Result):
    """A written profile."""

    path: Path
    profile: Profile

    def data(self) -> dict[str, Any]:
        return {"profile": str(self.path)} | self.profile.meta.model_dump(mode="json")

    def shown(self) -> Iterator[RenderableType]:
        from .measure_progress import measured_lines

        yield grid(measured_lines(self.profile))
        yield f"written: {self.path}"


def profile(
    out: Annotated[Path, typer.Argument(help="Profile to write (Parquet).")],
    options: MeasureOptions,
    engine_arguments: Annotated[
        list[str] | None,
        typer.Argument(help="After --: arguments of vLLM, as `vllm serve` takes them.", show_default=False),
    ] = None,
    engine: Annotated[
        str, typer.Option(help="chunkfit, the reference engine, or vllm, with --model and its arguments.")
    ] = "chunkfit",
    as_json: JsonFlag = False,
) -> None:
    """Measure fit, calibrate and test sessions, each in its own process, into a profile.

    Example: chunkfit profile profile.parquet --minutes 2
    """
    from ..files.errors import UsageError
    from .measure_progress import measure, measure_request, vllm_request

    arguments = tuple(engine_arguments or ())
    if engine == "vllm":
        request = vllm_request(out, options, arguments)
    elif engine != "chunkfit" or arguments:
        raise UsageError(f"--engine {engine} {' '.join(arguments)}: expected chunkfit without arguments, or vllm")
    else:
        request = measure_request(out, options)
    emit(WrittenProfile(out, measure(request, options.resume)), as_json)
