"""Every kernel, in each configuration that the engine can choose, compiled for GPUs that are not there.

In processes of their own: the compiler is asked directly, with triton alone, and in other versions of it.
"""

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import chunkfit
from chunkfit.engine import PRESETS
from chunkfit.engine.kv_cache import PAGE_SIZE

pytest.importorskip("triton", reason="triton is not installed (it is for Linux)")

ENGINE = Path(chunkfit.__file__).parent / "engine"
COMPILE = Path(__file__).parents[1] / "support" / "compile_kernels.py"
LAUNCHED = COMPILE.with_name("launched_kernels.py")
# The oldest that pyproject.toml allows and the newest there is; torch 2.13 brings the one between them.
OTHER_VERSIONS = ("3.6.0", "3.9.0")
# Shared memory that one program may take (CUDA programming guide, compute capabilities).
SHARED_BYTES = {80: 163 * 1024, 90: 227 * 1024, 100: 227 * 1024}
SHAPES = {
    name: {
        "heads": config.heads,
        "kv_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "eps": config.rms_norm_eps,
        "qk_norm": config.qk_norm,
        "page_size": PAGE_SIZE,
        "itemsize": 2,
    }
    for name, config in PRESETS.items()
}


def compiled(python, capabilities, shapes=SHAPES):
    request = json.dumps({"capabilities": capabilities, "shapes": shapes})
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [python, COMPILE, ENGINE, request], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(found, capsys):
    lines = [f"{'Triton ' + found['triton']} {'':34} {'registers':>8} {'local':>6} {'shared':>7} {'threads':>7}"]
    lines += [
        f"sm_{row['capability']:<4} {row['shape']:14} {row['kernel']:27} {row['registers']:>8} {row['local']:>6} "
        f"{row['shared']:>7} {row['threads']:>7}"
        for row in found["rows"]
    ]
    with capsys.disabled():
        print("", *lines, sep="\n")
    assert len(found["rows"]) >= 9 * len(PRESETS)
    for row in found["rows"]:
        assert row["local"] == 0, row
        assert row["shared"] <= SHARED_BYTES[row["capability"]], row
        # A processor has 65,536 registers: a program that takes more of them does not start.
        assert row["registers"] * row["threads"] <= 65_536, row


def test_compiles_for_hopper(capsys):
    check(compiled(sys.executable, [90]), capsys)


@pytest.mark.slow
def test_compiles_for_all(capsys):
    check(compiled(sys.executable, [80, 90, 100]), capsys)


@pytest.mark.slow
def test_compiles_in_float32(capsys):
    shapes = {name: sizes | {"itemsize": 4} for name, sizes in SHAPES.items()}
    check(compiled(sys.executable, [80, 90, 100], shapes), capsys)


@pytest.mark.slow
@pytest.mark.parametrize("version", OTHER_VERSIONS)
def test_compiles_with_other_versions_of_triton(version, capsys):
    """The same kernel took 127 registers under one version and 172 under another."""
    if importlib.metadata.version("triton") == version:
        pytest.skip(f"triton {version} is what is installed: the other test compiles with it")
    environment = Path(sys.prefix) / f"triton-{version}"
    python = environment / "bin" / "python"
    if not (environment / ".installed").exists():
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"triton=={version}"], check=True)
        (environment / ".installed").touch()
    found = compiled(python, [80, 90, 100])
    assert found["triton"] == version
    check(found, capsys)


def test_what_is_launched_is_what_was_compiled():
    """Over batches of many sizes the runtime asks for the compiled forms and no other: a number that is 1 or a
    multiple of 16, or a view that happens to be aligned, does not compile anew in a timed iteration. All of them have
    been asked for when the engine is made.
    """
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, LAUNCHED], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["asked"] == found["compiled"]
    assert found["at_start"] == found["asked"]
    assert len(found["asked"]) == 9
