"""The command as a user runs it, and the files that pages take as given."""

from pathlib import Path

import pytest
from support.command import chunkfit_command, make_table


@pytest.fixture(scope="session")
def command():
    return chunkfit_command


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    """A folder with profile.parquet and table.json."""
    return make_table(tmp_path_factory.mktemp("made"))
