"""docs/cli.md is what the commands say of themselves, and holds every option that --help shows."""

import importlib.util
import re

import pytest
from support.pages import GENERATED, ROOT

from chunkfit.cli.main import COMMANDS


def generated() -> str:
    spec = importlib.util.spec_from_file_location("cli_reference", ROOT / "docs" / "cli_reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.reference()


def test_the_page_is_fresh():
    assert GENERATED.read_text() == generated(), "write it again: python docs/cli_reference.py"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_and_page_show_the_same_options(name, command):
    shown = command(name, "--help")
    assert shown.code == 0
    section = GENERATED.read_text().split(f"## chunkfit {name}\n")[1].split("\n## ")[0]
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", shown.out.split("Options")[1])) - {"--help"}
    in_table = set(re.findall(r"^\| `(--[a-z-]+)", section, re.MULTILINE))
    assert in_table <= options
    assert in_table, "a command without any option: at least --json is expected"
    assert "Example" in shown.out
