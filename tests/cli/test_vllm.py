"""`chunkfit profile --engine vllm` before an engine is started."""

import importlib.util

import pytest


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--engine", "vllm"], 2, "expected --model with what `vllm serve` takes"),
        (["--engine", "vllm", "--model", "m", "--device", "cpu"], 2, "neither --device nor --attention"),
        (
            ["--engine", "vllm", "--model", "m", "--minutes", "0"],
            2,
            "--minutes '0': expected a number of minutes above 0",
        ),
        (["--engine", "sglang"], 2, "--engine sglang"),
        (["--", "--max-num-seqs", "8"], 2, "--engine chunkfit --max-num-seqs 8: expected chunkfit without arguments"),
    ],
)
def test_wrong_usage(tmp_path, command, arguments, code, message):
    done = command("profile", str(tmp_path / "p.parquet"), *arguments)
    assert (done.code, message in done.err) == (code, True), done.err
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vllm is installed here")
def test_without_vllm(tmp_path, command):
    done = command("profile", str(tmp_path / "p.parquet"), "--engine", "vllm", "--model", "m")
    assert done.code == 3
    assert "--engine vllm needs vLLM in this environment" in done.err
