"""Imports point one way, packages are listed, the core stays light, files stay small."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import chunkfit
from chunkfit.tables.batch import AXES, Point

ROOT = Path(chunkfit.__file__).parent
FOLDERS = ("files", "tables", "planning", "engine", "profiler", "fitters", "scheduler", "integrations", "cli")
# What each folder may import of ours: itself and those before it; the scheduler needs tables alone, but for live runs,
# which drive the engine and the profiler's devices; integrations need neither the engine nor the fitters.
ALLOWED = {folder: set(FOLDERS[: i + 1]) for i, folder in enumerate(FOLDERS)} | {
    "tables": {"files", "tables"},
    "engine": {"files", "tables", "engine"},
    "profiler": {"files", "tables", "planning", "engine", "profiler"},
    "fitters": {"files", "tables", "planning", "engine", "profiler", "fitters"},
    "scheduler": {"files", "tables", "scheduler"},
    "scheduler/live": {"files", "tables", "engine", "profiler", "scheduler"},
    "integrations": {"files", "tables", "profiler", "scheduler", "integrations"},
}
HEAVY = (
    "torch",
    "triton",
    "pandas",
    "matplotlib",
    "jinja2",
    "scipy",
    "statsmodels",
    "lightgbm",
    "numba",
    "pyarrow",
    "sklearn",
    "ray",
)


def sources(folder):
    return sorted((ROOT / folder).rglob("*.py"))


def imported_folders(path):
    """Top-level folders of ours that a file imports, however deep it sits."""
    depth = len(path.relative_to(ROOT).parts) - 1
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            if node.level == depth + 1:
                yield from [node.module.split(".")[0]] if node.module else [alias.name for alias in node.names]
            elif node.level == 0 and node.module and node.module.split(".")[0] == "chunkfit":
                yield "absolute import of chunkfit"


def test_the_scheduler_s_core_does_not_know_live_runs():
    for path in sources("scheduler"):
        if path.parent.name != "live":
            tree = ast.parse(path.read_text())
            named = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
            assert not [name for name in named if "live" in name.split(".")], path


@pytest.mark.parametrize("folder", FOLDERS)
def test_imports_point_one_way(folder):
    for path in sources(folder):
        parent = path.relative_to(ROOT).parent.as_posix()
        wrong = set(imported_folders(path)) - ALLOWED.get(parent, ALLOWED[folder])
        assert not wrong, f"{path.relative_to(ROOT)} imports {wrong}"


def test_every_folder_is_packaged():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = set(project["tool"]["setuptools"]["packages"])
    found = {".".join(("chunkfit", *path.parent.relative_to(ROOT).parts)) for f in FOLDERS for path in sources(f)} | {
        "chunkfit"
    }
    assert listed == found


def test_modules_hold_one_idea():
    long = {
        str(path.relative_to(ROOT)): lines
        for folder in FOLDERS
        for path in sources(folder)
        if (lines := len(path.read_text().splitlines())) > 300
    }
    assert not long


def test_the_axes_are_named_once():
    """One order of n, k, c, u: other modules take it from `tables.batch.AXES`."""
    written = [
        str(path.relative_to(ROOT))
        for folder in FOLDERS
        for path in sources(folder)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Tuple | ast.List)
        and {part.value for part in node.elts if isinstance(part, ast.Constant)} in (set(AXES), set(Point._fields))
    ]
    assert written == ["tables/batch.py"]


def test_no_two_classes_have_one_name():
    places = {}
    for folder in FOLDERS:
        for path in sources(folder):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert not {name: found for name, found in places.items() if len(found) > 1}


def run_fresh(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_loading_a_table_imports_nothing_heavy():
    golden = ROOT / "tests" / "tables" / "golden" / "table-v1.json"
    code = (
        "import sys, chunkfit\n"
        f"table = chunkfit.load({str(golden)!r})\n"
        "table.largest_chunk(decodes=4, context_tokens=100, prefix_tokens=0, budget_ms=25.0)\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    assert run_fresh(code) == "[]"


def test_calibrating_online_imports_nothing_heavy():
    """It runs in a serving engine's loop, where the core alone is installed."""
    code = (
        "import sys, chunkfit\nassert chunkfit.OnlineCalibrator\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    assert run_fresh(code) == "[]"


def test_scheduling_needs_the_core_alone():
    """numba is optional: without it the same functions are interpreted."""
    code = (
        "import sys\nsys.modules['numba'] = None\n"
        "from chunkfit.scheduler import capacity, diagnose, run_report, serving_metrics\n"
        "from chunkfit.scheduler.workloads.registry import workload\nworkload('mixed', 0)\n"
        "from chunkfit.scheduler.cost import SLOWEAVE, largest_chunk\n"
        "assert largest_chunk(SLOWEAVE.cost(), 4, 1, 1, 0, 10 << 14, 4096, 1, 1) == 1355\n"
        f"print([name for name in {HEAVY!r} if sys.modules.get(name)])"
    )
    assert run_fresh(code) == "[]"


def test_deciding_inside_an_engine_needs_the_core_alone():
    code = (
        "import sys\nsys.modules['numba'] = None\n"
        "from chunkfit.integrations.vllm import decision, followed, options, record_file, work\n"
        f"print([name for name in {HEAVY!r} if sys.modules.get(name)])"
    )
    assert run_fresh(code) == "[]"


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom chunkfit.cli.main import app\n"
        f"print([name for name in {(*HEAVY, 'numpy', 'pydantic')!r} if name in sys.modules])"
    )
    assert run_fresh(code) == "[]"


def test_public_names_are_pinned():
    assert chunkfit.__all__ == sorted(chunkfit.__all__)
    assert all(getattr(chunkfit, name) is not None for name in chunkfit.__all__)
    assert set(chunkfit.__all__) == {
        "Batch",
        "Chunk",
        "ChunkfitError",
        "CostTable",
        "Domain",
        "Fingerprint",
        "OnlineCalibrator",
        "OutOfDomainError",
        "Profile",
        "Scene",
        "fit",
        "load",
        "profile",
    }
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        chunkfit.nothing  # noqa: B018 - reading the name is the test
