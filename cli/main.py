"""`chunkfit`: the commands by name. Each command's file imports what is heavy inside its function."""

from __future__ import annotations

from collections.abc import Callable

import typer

from .capacity import capacity
from .chunk import chunk
from .compare import compare
from .diagnose import diagnose
from .doctor import doctor
from .exit_codes import guarded
from .export import export
from .fit import fit
from .ingest import ingest
from .live import live
from .microbench import microbench
from .options import flattened
from .profile import profile
from .report.command import report
from .run import run
from .sensitivity import sensitivity
from .show import show
from .simulate import simulate
from .size import size
from .validate import validate

COMMANDS: dict[str, Callable[..., None]] = {
    "run": run,
    "doctor": doctor,
    "profile": profile,
    "microbench": microbench,
    "ingest": ingest,
    "fit": fit,
    "validate": validate,
    "compare": compare,
    "show": show,
    "chunk": chunk,
    "size": size,
    "simulate": simulate,
    "capacity": capacity,
    "sensitivity": sensitivity,
    "diagnose": diagnose,
    "live": live,
    "report": report,
    "export": export,
}

app = typer.Typer(
    name="chunkfit",
    help="How long does an iteration of n decodes and c prompt tokens take on this GPU, and how sure are we? "
    "Profile a device, fit a certified cost table, size prefill chunks with it.",
    epilog="Exit codes: 0 done, 1 the data or a check failed, 2 wrong usage, 3 the environment cannot do it "
    "or the result is inconclusive, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
)
for name, function in COMMANDS.items():
    app.command(name, rich_help_panel=None)(guarded(flattened(function)))


def main() -> None:
    """Entry point of the `chunkfit` script."""
    app()
