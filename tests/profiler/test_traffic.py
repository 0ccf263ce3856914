"""Traffic: strict about its file, honest about what lies outside, and never without a scene."""

import numpy as np
import pytest

from chunkfit.files.errors import UsageError
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.plan import PlanOptions, draw_plan
from chunkfit.profiler.traffic import LEAST_SHARE, Cells, read_traffic
from chunkfit.tables.batch import Scene


def written(tmp_path, *lines, header="n,k,c,u,weight"):
    path = tmp_path / "traffic.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def test_shares_of_cells_and_scenes(tmp_path):
    path = written(tmp_path, "40,1000,0,0,6", "41,1001,0,0,1", "8,100,256,0,3", "500,10,0,0,2.5")
    traffic = read_traffic(path, SYNTHETIC_DOMAIN)
    assert (traffic.rows, traffic.outside) == (4, pytest.approx(0.2))
    assert [cell.share for cell in traffic.cells] == pytest.approx([0.7, 0.3])
    total = 0.7 + 0.3 + LEAST_SHARE
    assert traffic.scenes == pytest.approx(
        {Scene.DECODE: 0.7 / total, Scene.PREFILL: LEAST_SHARE / total, Scene.MIXED: 0.3 / total}
    )
    cells = Cells(SYNTHETIC_DOMAIN)
    shares = traffic.per_cell(cells)
    assert shares[cells.of(np.array([[40, 1000, 0, 0]]))[0]] == pytest.approx(0.7)
    assert shares.sum() == pytest.approx(1)
    assert "20.0% of its weight lies outside" in traffic.title()


def test_calibrate_and_test_have_the_scenes_shares_and_fit_is_space_filling(tmp_path):
    traffic = read_traffic(written(tmp_path, "40,1000,0,0,9", "8,100,256,0,1"), SYNTHETIC_DOMAIN)
    plan = draw_plan(
        SYNTHETIC_DOMAIN, (129,), 0, PlanOptions(fit_points=90, calibrate_points=210, test_points=105, traffic=traffic)
    )
    for points in (plan.calibrate, plan.test):
        share = {scene: sum(point.scene is scene for point in points) / len(points) for scene in Scene}
        assert share == pytest.approx(traffic.scenes, abs=0.01)
    fit = [point for point in plan.fit if point.role == "point"]
    assert all(sum(point.scene is scene for point in fit) >= 15 for scene in Scene)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["4,100,0,0"], r"line 2: 4 columns; expected 5"),
        (["4,100,0,0,1", "", "4,1e2,0,0,1"], r"line 4, column k: '1e2'; expected a whole number"),
        (["4,100,0,-1,1"], r"line 2, column u: '-1'"),
        (["4,100,0,0,0"], r"line 2, column weight: '0'; expected a finite number above 0"),
        (["4,100,0,0,inf"], r"column weight: 'inf'"),
        (["4,100,0,0,heavy"], r"column weight: 'heavy'"),
        (["4,0,0,0,1"], r"line 2: n 4, k 0, c 0, u 0 is no batch"),
        (["0,0,0,0,1"], r"is no batch"),
        (["4,100,0,64,1"], r"is no batch"),
        (["400,100,0,0,1", "4,100,9999,0,2"], r"all 2 rows lie outside the measured domain \(128 decodes"),
        ([], r"1 lines.*expected the header n,k,c,u,weight"),
    ],
)
def test_what_is_not_traffic_is_refused_with_its_place(tmp_path, lines, message):
    with pytest.raises(UsageError, match=message):
        read_traffic(written(tmp_path, *lines), SYNTHETIC_DOMAIN)


def test_a_wrong_header_or_no_file(tmp_path):
    with pytest.raises(UsageError, match=r"the first 'n,c,weight'; expected the header"):
        read_traffic(written(tmp_path, "4,0,1", header="n,c,weight"), SYNTHETIC_DOMAIN)
    with pytest.raises(UsageError, match="cannot be read"):
        read_traffic(tmp_path / "none.csv", SYNTHETIC_DOMAIN)
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00n")
    with pytest.raises(UsageError, match="cannot be read"):
        read_traffic(tmp_path / "binary.csv", SYNTHETIC_DOMAIN)
