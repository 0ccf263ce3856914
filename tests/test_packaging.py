"""The built wheel: one top-level name, everything a user needs inside, and a core that stands alone."""

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import chunkfit

ROOT = Path(chunkfit.__file__).parent
HEAVY = ("torch", "pandas", "matplotlib", "jinja2", "scipy", "statsmodels", "lightgbm", "numba", "pyarrow", "sklearn")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT],
        check=True,
        capture_output=True,
    )
    (found,) = out.glob("*.whl")
    return found


@pytest.mark.slow
def test_the_wheel_has_one_top_level_name_and_its_data(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    top = next(name for name in names if name.endswith("top_level.txt"))
    assert zipfile.ZipFile(wheel).read(top).decode().split() == ["chunkfit"]
    assert {name.split("/")[0] for name in names} == {"chunkfit", top.split("/")[0]}
    assert "chunkfit/py.typed" in names
    assert "chunkfit/tables/schema/table-v1.json" in names
    assert any(name.endswith("LICENSE") for name in names)
    assert not [name for name in names if "/tests/" in name or "/benchmarks/" in name]


@pytest.mark.slow
def test_the_core_alone_loads_a_table_and_answers(wheel, tmp_path):
    """In an environment that has only what the core asks for."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    constraints = ROOT / "constraints.txt"
    install = [python, "-m", "pip", "install", "--quiet", "--constraint", constraints, wheel]
    subprocess.run(install, check=True, capture_output=True)
    golden = ROOT / "tests" / "tables" / "golden" / "table-v1.json"
    code = (
        "import importlib.util, sys, chunkfit\n"
        f"table = chunkfit.load({str(golden)!r})\n"
        "assert table.largest_chunk(decodes=40, context_tokens=1000, prefix_tokens=0, budget_ms=25.0) > 0\n"
        f"print([n for n in {HEAVY!r} if n in sys.modules or importlib.util.find_spec(n)])"
    )
    done = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == "[]"
    command = [tmp_path / "env" / "bin" / "chunkfit", "fit", "p.parquet"]
    lacking = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert lacking.returncode == 3
    assert "pip install 'chunkfit[fit]'" in lacking.stderr
