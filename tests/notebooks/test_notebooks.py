"""Every notebook runs from top to bottom; its plots have something in them."""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import chunkfit
from chunkfit.fitters.estimators.registry import ESTIMATORS

FOLDER = Path(chunkfit.__file__).parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
WALK = FOLDER / "01_profile_to_chunk.ipynb"
PUBLIC = FOLDER / "02_fitters_on_public_data.ipynb"
POLICIES = FOLDER / "03_policies.ipynb"
of_jupyter = pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client", "ignore::DeprecationWarning:zmq")


def run(path, monkeypatch, tmp_path):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    return notebook


def printed(notebook):
    return "".join(
        output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []) if "text" in output
    )


def test_there_are_notebooks_and_they_are_kept_without_output():
    assert NOTEBOOKS
    for path in NOTEBOOKS:
        cells = nbformat.read(path, as_version=4).cells
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells), path.name


def plots(notebook):
    return [o for cell in notebook.cells for o in cell.get("outputs", []) if "image/png" in o.get("data", {})]


def test_every_notebook_is_run_below():
    assert NOTEBOOKS == [WALK, PUBLIC, POLICIES]


@of_jupyter
def test_the_walk_runs(monkeypatch, tmp_path):
    monkeypatch.setenv("CHUNKFIT_NOTEBOOK_DEVICE", "synthetic")
    notebook = run(WALK, monkeypatch, tmp_path)
    assert len(plots(notebook)) >= 3
    assert "valid:" in printed(notebook)


@pytest.mark.slow
@of_jupyter
def test_the_walk_runs_on_this_cpu(monkeypatch, tmp_path):
    monkeypatch.setenv("CHUNKFIT_NOTEBOOK_DEVICE", "cpu")
    assert "valid:" in printed(run(WALK, monkeypatch, tmp_path))


@pytest.mark.slow
@of_jupyter
@pytest.mark.skipif("CHUNKFIT_PUBLIC_DATA" not in os.environ, reason="CHUNKFIT_PUBLIC_DATA is not set: no public logs")
def test_fitters_on_public_data(monkeypatch, tmp_path):
    notebook = run(PUBLIC, monkeypatch, tmp_path)
    said = printed(notebook)
    assert len(plots(notebook)) >= 4
    assert "refused: profile aggregation is 'mean:20'" in said
    assert all(name in said for name in ESTIMATORS)
    assert "valid: True" in said
    assert "whether the machine was quiet: a log has no sentinel" in said
    pages = [o.get("data", {}).get("text/html", "") for cell in notebook.cells for o in cell.get("outputs", [])]
    assert any("<svg" in page for page in pages)


@of_jupyter
def test_policies(monkeypatch, tmp_path):
    pytest.importorskip("numba", reason="plain Python takes minutes")
    notebook = run(POLICIES, monkeypatch, tmp_path)
    said = printed(notebook)
    assert len(plots(notebook)) == 4
    assert all(
        name in said for name in ("full", "sarathi-edf-256", "qoserve-1024", "slidingserve-1024", "sloweave:prefills=1")
    )
    assert "10% noise       read as 99% bound" in said
