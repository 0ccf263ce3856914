"""A command in this process, for tests of what it answers rather than of what it needs to start."""

import json

from typer.testing import CliRunner

from chunkfit.cli.main import app


class Answer:
    def __init__(self, *arguments):
        done = CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "200"})
        self.code, self.out, self.err = done.exit_code, done.stdout, done.stderr

    @property
    def json(self):
        return json.loads(self.out)
