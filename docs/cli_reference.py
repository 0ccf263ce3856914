"""Writes docs/cli.md from the commands themselves: python docs/cli_reference.py

A test holds the file to what this prints, and every option of `chunkfit COMMAND --help` to the file.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import typer

from chunkfit.cli.main import app

HEAD = """# Command line

Every command has `--help` with an example, and `--json`, which prints JSON alone on stdout. Exit codes: 0 done, 1 the
data or a check failed, 2 wrong usage, 3 the environment cannot do it or the result is inconclusive, 130 interrupted.
Durations and rates carry their unit (`25ms`, `2m`, `85`), factors an x (`3x`), shares a percent sign or none (`99%`,
`0.99`).
"""


def reference() -> str:
    """The page: one section a command, its arguments and options in the order of --help."""
    group: Any = typer.main.get_command(app)
    return "\n".join([HEAD, *(_section(name, command) for name, command in group.commands.items())])


def _section(name: str, command: Any) -> str:
    text, _, example = inspect.cleandoc(command.help or "").partition("Example: ")
    lines = [f"## chunkfit {name}", "", _prose(text), ""]
    if example:
        lines += ["```", " ".join(example.split()), "```", ""]
    rows = [_row(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
    lines += ["| argument or option | default | what it says |", "|---|---|---|", *filter(None, rows), ""]
    return "\n".join(lines)


def _prose(text: str) -> str:
    """Paragraphs, each on one line: the page is wrapped where it is read."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))


def _row(parameter: Any) -> str:
    if "--help" in parameter.opts:
        return ""
    argument = parameter.param_type_name == "argument"
    shown = (parameter.metavar or parameter.name.upper()) if argument else ", ".join(parameter.opts)
    default = "required" if parameter.required else ""
    if parameter.default not in (None, False, "", ()) and not callable(parameter.default):
        default = f"`{parameter.default}`"
    help_text = " ".join((parameter.help or "").split()).replace("|", "\\|")
    return f"| `{shown.strip('{}[]')}` | {default} | {help_text} |"


if __name__ == "__main__":
    (Path(__file__).parent / "cli.md").write_text(reference())
