"""`chunkfit microbench`: the engine's operators one by one, against the machine's ceilings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Attention, MinutesAboveZero, Model, default_model
from .output import JsonFlag, Result, balance_line, emit, escape, grid

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from ..profiler.microbench.results import MicrobenchV1

FULL_MINUTES, QUICK_MINUTES = 3.0, 0.5


@dataclass(frozen=True)
class Benchmarked(Result):
    """Measured operators and the files that hold them."""

    measured: MicrobenchV1
    files: tuple[Path, ...]

    def data(self) -> dict[str, Any]:
        return self.measured.model_dump(mode="json")

    def shown(self) -> Iterator[RenderableType]:
        yield _operator_table(self.measured)
        if self.measured.whole:
            yield _whole_table(self.measured)
        yield grid(_lines(self.measured))
        yield "written: " + ", ".join(map(str, self.files))


def microbench(
    out: Annotated[Path, typer.Option(help="Results file to write (JSON).")] = Path("microbench.json"),
    device: Annotated[str, typer.Option(help="auto, cuda or cpu.")] = "auto",
    model: Model = None,
    attention: Attention = None,
    minutes: Annotated[
        MinutesAboveZero | None,
        typer.Option(help="Time budget. Default: 3, with --quick a half.", show_default=False),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer sizes, half a minute.")] = False,
    plot: Annotated[bool, typer.Option("--plot", help="Also a picture, beside OUT with the ending .png.")] = False,
    seed: Annotated[int, typer.Option(help="Of values and of the order of replays.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Time matrix products, attention and the rest, cache-cold, as shares of copy bandwidth and matrix rate.

    Example: chunkfit microbench --quick --out microbench.json --plot
    """
    import sys
    from importlib.util import find_spec

    from ..files.errors import MissingExtraError, UsageError
    from ..profiler.devices import resolve_device

    if plot and find_spec("matplotlib") is None:
        raise MissingExtraError("--plot needs matplotlib, which is not installed: pip install 'chunkfit[plot]'")
    picture = out.with_suffix(".png")
    if plot and picture == out:
        raise UsageError(f"--out {str(out)!r} is where the picture would go: expected a name that ends in .json")
    device = resolve_device(device)
    if device == "synthetic":
        raise UsageError("device 'synthetic' has no operators: expected auto, cuda or cpu")
    from ..profiler.microbench.measure import MicrobenchOptions
    from ..profiler.microbench.measure import microbench as measure

    budget = minutes if minutes is not None else QUICK_MINUTES if quick else FULL_MINUTES
    options = MicrobenchOptions(device, model or default_model(device), budget, quick, seed, attention)
    with _Progress(budget) as progress:
        result = measure(options, command=" ".join(["chunkfit", *sys.argv[1:]]), progress=progress.show)
    result.save(out)
    if plot:
        from ..profiler.microbench.plot import save_plot

        save_plot(result, picture)
    emit(Benchmarked(result, (out, picture) if plot else (out,)), as_json)


class _Progress:
    """A bar on stderr."""

    def __init__(self, minutes: float) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        from .output import progress_console

        console = progress_console()
        console.print(f"microbenchmarks within {60 * minutes:.0f} s", highlight=False)
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        self._progress = Progress(*columns, console=console)
        self._task = self._progress.add_task("buffers", total=None)

    def __enter__(self) -> _Progress:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, done: int, total: int, name: str) -> None:
        self._progress.update(self._task, completed=done, total=total, description=name)


def _lines(result: MicrobenchV1) -> list[tuple[str, str]]:
    check, limits, ridge = result.machine.cold_check, result.ceilings, result.ridge
    interval = "" if ridge.low is None or ridge.high is None else f" [{ridge.low:.3g}, {ridge.high:.3g}]"
    colour, verdict = ("green", "cold") if check.cold else ("yellow", "NOT surely cold")
    lines = [
        ("measured on", escape(result.fingerprint.title())),
        (
            "ceilings",
            f"copy {limits.copy_bytes_per_s / 1e9:,.4g} GB/s, matrices {limits.flops_per_s / 1e12:,.4g} TFLOP/s",
        ),
        (
            "cache",
            f"{result.machine.cache_bytes / 2**20:.4g} MiB, {result.machine.rotated_bytes / 2**20:.4g} MiB between "
            f"two uses of a buffer; [{colour}]{verdict}[/]: a read takes {check.ratio:.2f} times a warm one",
        ),
        ("ridge", f"the token-parallel part of a layer {escape(ridge.finding + interval)} ({ridge.method})"),
        *([("balance", balance_line(ridge.balance_tokens))] if ridge.balance_tokens is not None else []),
    ]
    if result.skipped:
        reasons = sorted({skipped.reason for skipped in result.skipped})
        lines.append(("left out", f"[yellow]{len(result.skipped)} sizes: {escape('; '.join(reasons))}[/]"))
    return lines


def _operator_table(result: MicrobenchV1) -> Table:
    from rich.table import Table

    table = Table(title="operators of one layer, cache-cold")
    for column in ("operator", "sizes", "P50 ms", "P99 ms", "n", "warm ms", "GB/s", "TFLOP/s", "of its ceiling"):
        table.add_column(column, justify="left" if column in ("operator", "sizes") else "right")
    for row in result.rows:
        table.add_row(
            row.name,
            ", ".join(f"{name.removesuffix('_tokens')} {size:,}" for name, size in row.sizes.items()),
            f"{row.p50_ms:.4g}",
            "" if row.p99_ms is None else f"{row.p99_ms:.4g}",
            str(row.n),
            f"{row.warm_p50_ms:.4g}",
            f"{row.bytes_per_s / 1e9:,.4g}",
            f"{row.flops_per_s / 1e12:,.3g}",
            f"{100 * row.fraction:.0f}% {row.ceiling.replace('_', ' ')}",
        )
    return table


def _whole_table(result: MicrobenchV1) -> Table:
    from rich.table import Table

    table = Table(title="whole iterations less the sum of their operators")
    for column in (
        "n",
        "k",
        "c",
        "u",
        "whole ms",
        "fastest",
        "no graphs",
        "operators cold",
        "operators warm",
        "rest = whole - cold",
    ):
        table.add_column(column, justify="right")
    for whole in result.whole:
        sizes = (whole.decodes, whole.context_tokens, whole.chunk_tokens, whole.prefix_tokens)
        rest = f"{whole.rest_ms:+.4g} ({100 * whole.rest_ms / whole.p50_ms:+.0f}%)"
        times = (
            whole.p50_ms,
            whole.fastest_ms,
            whole.eager_p50_ms,
            whole.operators_cold_ms,
            whole.operators_warm_ms,
        )
        shown = ("" if ms is None else f"{ms:.4g}" for ms in times)
        table.add_row(*(f"{size:,}" for size in sizes), *shown, rest)
    if any(whole.fits_cache for whole in result.whole):
        table.caption = "weights and KV fit the cache: the iterations run warm, so the warm sum is the nearer one"
    return table
