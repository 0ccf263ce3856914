"""`chunkfit profile`: measure a device."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .output import JsonFlag, emit_data

Device = Annotated[str, typer.Option(help="auto, cuda, cpu or synthetic (a formula, for trying the tool).")]
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
Minutes = Annotated[float | None, typer.Option(help="Time budget of the sweep, process starts included.")]
Points = Annotated[int, typer.Option(help="Points of each session; 299 calibration points certify 99%.")]
Tolerance = Annotated[
    str,
    typer.Option(
        help="Fit points are added where held-out error is largest, until no cell of the domain has more than this "
        "or time or points are spent."
    ),
]
Traffic = Annotated[
    Path | None,
    typer.Option(
        help="CSV with columns n,k,c,u,weight: where fit points matter, and the scenes' shares of calibrate and test."
    ),
]
Seed = Annotated[int, typer.Option(help="Decides the plan.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with an interrupted sweep.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a finished result.")]
Engine = Annotated[str, typer.Option(help="chunkfit, the reference engine, or vllm, with --model and its arguments.")]
EngineArguments = Annotated[
    list[str] | None,
    typer.Argument(help="After --: arguments of vLLM, as `vllm serve` takes them.", show_default=False),
]


def profile(
    out: Annotated[Path, typer.Argument(help="Profile to write (Parquet).")],
    engine_arguments: EngineArguments = None,
    engine: Engine = "chunkfit",
    device: Device = "auto",
    model: Model = None,
    attention: Attention = None,
    minutes: Minutes = 2.0,
    points: Points = 1000,
    tolerance: Tolerance = "1%",
    traffic: Traffic = None,
    seed: Seed = 0,
    resume: Resume = False,
    overwrite: Overwrite = False,
    as_json: JsonFlag = False,
) -> None:
    """Measure fit, calibrate and test sessions, each in its own process, into a profile.

    Example: chunkfit profile profile.parquet --minutes 2
    """
    from ..files.errors import UsageError
    from .measure_progress import SweepOptions, measured_lines, sweep, sweep_request, vllm_request
    from .output import grid

    options = SweepOptions(device, model, attention, seed, minutes, points, tolerance, traffic)
    arguments = tuple(engine_arguments or ())
    if engine == "vllm":
        request = vllm_request(out, options, arguments, resume=resume, overwrite=overwrite)
    elif engine != "chunkfit" or arguments:
        raise UsageError(f"--engine {engine} {' '.join(arguments)}: expected chunkfit without arguments, or vllm")
    else:
        request = sweep_request(out, options, resume=resume, overwrite=overwrite)
    measured = sweep(request, resume)
    data = {"profile": str(out)} | measured.meta.model_dump(mode="json")
    emit_data(data, as_json, grid(measured_lines(measured)), f"written: {out}")
