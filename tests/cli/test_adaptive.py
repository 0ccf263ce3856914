"""`chunkfit profile` with rounds and traffic: what it says, what it keeps, what it refuses."""

import pytest

from chunkfit import Profile

SWEEP = ("profile", "p.parquet", "--device", "synthetic", "--points", 75)


def test_rounds_are_shown_and_kept(command, tmp_path):
    (tmp_path / "traffic.csv").write_text("n,k,c,u,weight\n40,1000,0,0,3\n8,500,256,0,1\n500,10,0,0,1\n")
    done = command(*SWEEP, "--traffic", "traffic.csv", "--tolerance", "0%", cwd=tmp_path)
    assert done.code == 0, done.err
    said = " ".join(done.err.split())
    assert "traffic of traffic.csv: 3 rows; calibrate and test have decode 71%, prefill 5%, mixed 24%" in said
    assert "20.0% of its weight lies outside the domain" in said
    cost, first = said.index("cost of the whole plan"), said.index("after 60 points the worst cell is off by")
    assert cost < first < said.index("after 75 points")
    assert "15 chosen in rounds" in " ".join(done.out.split())
    meta = Profile.load(tmp_path / "p.parquet").meta
    assert [(one.measured, one.chosen, one.stopped) for one in meta.rounds] == [(60, 15, None), (75, 0, "points")]
    assert meta.traffic is not None
    fitted = command("fit", "p.parquet", "--coverage", 0.9, "--json", cwd=tmp_path)
    assert fitted.code == 0, fitted.err
    assert fitted.json["by_traffic"]["coverage"] > 0.8
    assert "traffic (decode 0.714" in fitted.json["certificate"]["law"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--tolerance", "2"), "--tolerance '2': expected a share from 0% to 100%"),
        (("--tolerance", "200%"), "from 0% to 100%"),
        (("--traffic", "none.csv"), "none.csv: cannot be read"),
        (("--traffic", "bad.csv"), "bad.csv, line 2, column n: '4.5'"),
    ],
)
def test_wrong_options_measure_nothing(command, tmp_path, options, message):
    (tmp_path / "bad.csv").write_text("n,k,c,u,weight\n4.5,10,0,0,1\n")
    done = command(*SWEEP, *options, cwd=tmp_path)
    assert done.code == 2
    assert message in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["bad.csv"]
