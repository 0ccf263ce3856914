"""Errors of the product end a command with one message and their exit code; Ctrl-C with 130."""

from __future__ import annotations

import functools
from collections.abc import Callable

import typer

from ..files.errors import ChunkfitError, MissingExtraError
from .output import escape, progress_console

EXTRA_OF = {
    "torch": "profile",
    "pynvml": "profile",
    "scipy": "fit",
    "pyarrow": "fit",
    "statsmodels": "fit",
    "lightgbm": "fit",
    "jinja2": "plot",
    "matplotlib": "plot",
}
INTERRUPTED = 130


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """The command with its errors rendered; the signature stays, since typer reads it."""

    @functools.wraps(command)
    def run(*args: object, **kwargs: object) -> None:
        try:
            command(*args, **kwargs)
        except ChunkfitError as error:
            fail(str(error), error.exit_code)
        except ModuleNotFoundError as error:
            message = missing(error, command.__name__)
            if message is None:
                raise
            fail(message, MissingExtraError.exit_code)
        except BrokenPipeError:
            raise typer.Exit(0) from None  # the reader of our output has seen enough
        except KeyboardInterrupt:
            fail("interrupted", INTERRUPTED)

    return run


def missing(error: ModuleNotFoundError, command: str) -> str | None:
    """Which extra to install for a module that `chunkfit command` needs; None for a module of no extra."""
    extra = EXTRA_OF.get((error.name or "").split(".")[0])
    if extra is None:
        return None
    return f"{error.name} is not installed and `chunkfit {command}` needs it: pip install 'chunkfit[{extra}]'"


def fail(message: str, exit_code: int) -> None:
    """Print an error to stderr and end with `exit_code`."""
    progress_console().print(f"[bold red]error:[/] {escape(message)}", highlight=False, soft_wrap=True)
    raise typer.Exit(exit_code)
