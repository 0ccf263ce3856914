"""`--help` costs little more than an empty typer app."""

import statistics
import subprocess
import sys
import time

EMPTY = "import typer\napp = typer.Typer()\n@app.command()\ndef a(): 'A'\n@app.command()\ndef b(): 'B'\napp()"
OURS = "from chunkfit.cli.main import main; main()"


def seconds(code):
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code, "--help"], check=True, capture_output=True)
    return time.perf_counter() - start


def test_help_is_as_quick_as_an_empty_app():
    """Pairs in turn, so that a slow moment of the machine hits both."""
    pairs = [(seconds(OURS), seconds(EMPTY)) for _ in range(7)]
    assert statistics.median(ours / empty for ours, empty in pairs) <= 1.5
