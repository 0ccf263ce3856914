"""The command line as a user runs it: a process of its own, with a plain environment."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from chunkfit.profiler.synthetic_profile import synthetic_profile
from support.fitting import fit


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


def chunkfit_command(*arguments, cwd=None, timeout=120, without=None) -> Done:
    """without: a module that is not installed, as far as the command can see."""
    hidden = f"import sys; sys.modules[{without!r}] = None; " if without else ""
    command = [sys.executable, "-c", f"{hidden}from chunkfit.cli.main import main; main()", *map(str, arguments)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=timeout,
        check=False,
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "200", "PYTHONWARNINGS": "error::DeprecationWarning:chunkfit"},
    )
    return Done(done.returncode, done.stdout, done.stderr)


def make_table(folder: Path) -> Path:
    """profile.parquet and table.json of the synthetic device in `folder`."""
    profile = synthetic_profile(0, fit_points=300, calibrate_points=400, test_points=400)
    sha = profile.save(folder / "profile.parquet")
    fit(profile, profile_sha256=sha).save(folder / "table.json")
    return folder
