"""Pictures: PNG files of the size they say, of what was played; a failure leaves none."""

import struct

import pytest

from chunkfit.scheduler.simulation.cell import play
from chunkfit.scheduler.simulation.pictures import (
    latency_picture,
    load_picture,
    picture,
    sweep_picture,
    timeline_picture,
)
from chunkfit.scheduler.simulation.runs import Study, groups
from tests.support.studies import COSTS, Counting, cells_of

pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'chunkfit[plot]'")


def size(path):
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    return struct.unpack(">II", data[16:24])


def test_a_study_over_rates_and_over_a_parameter(tmp_path):
    cells = cells_of()
    found = groups(cells, Study(Counting()).reports(cells))
    load_picture(found, tmp_path / "load.png")
    assert size(tmp_path / "load.png") == (540, 900)
    sweep_picture("B", {"full": [("1", found[0]), ("2", found[1])]}, tmp_path / "sweep.png")
    assert size(tmp_path / "sweep.png") == (1200, 504)


def test_runs_of_policies(tmp_path):
    cells = cells_of(rates=("85",), seeds=1)
    runs = {each.policy: play(each, COSTS, log=True) for each in cells}
    latency_picture(runs, "runs", tmp_path / "latency.png")
    timeline_picture(runs, "runs", tmp_path / "timeline.png")
    assert size(tmp_path / "latency.png") == (1560, 504)
    assert size(tmp_path / "timeline.png") == (1440, 648)


def test_an_error_leaves_no_picture(tmp_path):
    with pytest.raises(ZeroDivisionError), picture(tmp_path / "x.png", 1, 1):
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())
