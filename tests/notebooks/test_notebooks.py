"""Every notebook runs from top to bottom; its plots have something in them."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import chunkfit

FOLDER = Path(chunkfit.__file__).parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def run(path, device, monkeypatch, tmp_path):
    monkeypatch.setenv("CHUNKFIT_NOTEBOOK_DEVICE", device)
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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client", "ignore::DeprecationWarning:zmq")
def test_notebook_runs(path, monkeypatch, tmp_path):
    notebook = run(path, "synthetic", monkeypatch, tmp_path)
    plots = [o for cell in notebook.cells for o in cell.get("outputs", []) if "image/png" in o.get("data", {})]
    assert len(plots) >= 3
    assert "valid:" in printed(notebook)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client", "ignore::DeprecationWarning:zmq")
def test_notebook_runs_on_this_cpu(path, monkeypatch, tmp_path):
    assert "valid:" in printed(run(path, "cpu", monkeypatch, tmp_path))
