"""Groups of options become options of a command; values with units are read where the command is called."""

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from chunkfit.cli.exit_codes import guarded
from chunkfit.cli.options import Coverage, ShareBelowAll, Time, flattened


@dataclass(frozen=True)
class Group:
    budget: Annotated[Time | None, typer.Option("--budget-of", help="A time.")] = 25.0
    free: Annotated[ShareBelowAll, typer.Option(help="A share.")] = 0.05
    jobs: int = 2


@pytest.fixture
def call():
    app = typer.Typer()

    @app.command()
    @guarded
    @flattened
    def command(
        name: Annotated[str, typer.Argument()],
        group: Group,
        coverage: Coverage = 0.99,
        late: Annotated[Time | None, typer.Option()] = None,
    ) -> None:
        """Doc."""
        print(name, group, coverage, late)

    return lambda *arguments: CliRunner().invoke(app, list(arguments))


def test_fields_are_options_with_their_defaults(call):
    assert call("a").stdout == f"a {Group()} 0.99 None\n"
    shown = call("--help").stdout
    for words in ("--budget-of", "25ms", "--free", "5%", "--jobs", "--coverage", "99%", "Doc."):
        assert words in shown


def test_values_are_read_by_their_unit(call):
    done = call("a", "--budget-of", "2s", "--free", "0.5", "--jobs", "3", "--coverage", "99.9%", "--late", "20us")
    assert done.stdout == f"a {Group(2000.0, 0.5, 3)} {0.999} 0.02\n"


@pytest.mark.parametrize(
    ("option", "text", "expected"),
    [
        ("--budget-of", "25", "a number with its unit"),
        ("--late", "0ms", "a time above 0"),
        ("--free", "100%", "from 0% to below 100%"),
        ("--coverage", "1", "above 0% and below 100%"),
        ("--coverage", "99", "above 0% and below 100%"),
        ("--coverage", "nan", "above 0% and below 100%"),
        ("--coverage", "0", "above 0% and below 100%"),
        ("--jobs", "many", "--jobs"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_the_option_name(call, option, text, expected):
    done = call("a", option, text)
    assert done.exit_code == 2
    assert not done.stdout
    assert option in done.stderr
    assert expected in done.stderr
