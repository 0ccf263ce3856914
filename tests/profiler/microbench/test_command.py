"""`chunkfit microbench` in this process, on a grid of a few sizes."""

import json
from io import StringIO

import pytest
from rich.console import Console
from typer.testing import CliRunner

from chunkfit.cli.main import app
from chunkfit.cli.microbench import Benchmarked
from chunkfit.profiler.microbench import operator_sizes
from chunkfit.profiler.microbench.plot import save_plot
from chunkfit.profiler.microbench.results import load

PNG = b"\x89PNG\r\n"


def invoke(*arguments):
    return CliRunner().invoke(app, ["microbench", *map(str, arguments)])


def test_it_leaves_a_file_and_a_picture(tmp_path, monkeypatch, small_sizes):
    monkeypatch.setitem(operator_sizes.SIZES, ("cpu", True), small_sizes)
    out = tmp_path / "m.json"
    done = invoke("--device", "cpu", "--quick", "--minutes", 0.001, "--out", out, "--plot", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == json.loads(out.read_text())
    assert load(out).fingerprint.model_name == "tiny"
    assert (tmp_path / "m.png").read_bytes().startswith(PNG)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.json", "m.png"]
    assert "microbenchmarks within" in done.stderr


def test_what_is_shown(measured):
    result, _ = measured
    console = Console(width=200, record=True, file=StringIO())
    for item in Benchmarked(result, ()).shown():
        console.print(item)
    text = console.export_text()
    assert "GB/s" in text
    assert "decodes 4, context 64" in text
    assert "rest = whole - cold" in text
    assert "two-piece fit" in text
    check = result.machine.cold_check
    assert ("cold: a read takes" in text) == check.cold


def test_a_picture_without_a_ridge(measured, tmp_path):
    result, _ = measured
    bare = result.ridge.model_copy(update={"tokens": None, "low": None, "high": None, "balance_tokens": None})
    save_plot(result.model_copy(update={"ridge": bare}), tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--device", "synthetic"], 2, "no operators"),
        (["--device", "tpu"], 2, "expected auto"),
        (["--device", "cpu", "--attention", "flash"], 2, "expected one of torch, triton"),
        (["--device", "cpu", "--minutes", 0], 2, "a number of minutes above 0"),
        (["--device", "cpu", "--plot", "--out", "m.png"], 2, "ends in .json"),
        (["--device", "cpu", "--model", "gpt-9"], 2, "gpt-9"),
    ],
)
def test_it_refuses_what_it_cannot_do(arguments, code, message):
    done = invoke(*arguments)
    assert done.exit_code == code
    assert message in done.stderr
    assert not done.stdout
