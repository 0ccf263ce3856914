"""A profile planned by traffic: what its certificate refers to, and its coverage as the traffic would see it."""

import pytest
from support.fitting import fit

from chunkfit import Profile
from chunkfit.files.errors import UsageError
from chunkfit.fitters.metrics import traffic_coverage
from chunkfit.fitters.validate import evidence_findings
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.profile import concat
from chunkfit.profiler.synthetic_profile import synthetic_profile
from chunkfit.profiler.traffic import read_traffic
from chunkfit.tables.arrays import TableArrays


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    (folder / "traffic.csv").write_text("n,k,c,u,weight\n40,500,0,0,3\n40,500,256,1000,1\n2,100,0,0,0.000001\n")
    traffic = read_traffic(folder / "traffic.csv", SYNTHETIC_DOMAIN)
    profile = synthetic_profile(5, fit_points=150, calibrate_points=320, test_points=320, traffic=traffic)
    sha = profile.save(folder / "p.parquet")
    return folder / "p.parquet", profile, fit(profile, profile_sha256=sha)


def test_the_certificate_names_the_shares_it_refers_to(made):
    path, profile, table = made
    assert "shares of the traffic (decode 0.714, prefill 0.0476, mixed 0.238)" in table.document.certificate.law
    assert Profile.load(path).meta.traffic == profile.meta.traffic
    assert evidence_findings(table.document, path) == []
    counted = {scene.value: counts.rows for scene, counts in table.document.certificate.scenes.items()}
    assert counted == {"decode": 229, "prefill": 15, "mixed": 76}
    plain = fit(synthetic_profile(5, fit_points=150, calibrate_points=320, test_points=320))
    assert "scenes in equal shares" in plain.document.certificate.law


def test_coverage_by_traffic_weights_rows_by_their_cell(made):
    _, profile, table = made
    arrays = TableArrays.of(table.document)
    found = traffic_coverage(profile, arrays)
    assert found is not None
    assert 0.9 < found.coverage <= 1
    assert 0.7 < found.seen <= 1
    assert 1 < found.rows < 320
    assert traffic_coverage(Profile(profile.meta.model_copy(update={"traffic": None}), profile.columns), arrays) is None


def test_profiles_of_different_traffic_do_not_become_one(made):
    _, profile, _ = made
    plain = Profile(profile.meta.model_copy(update={"traffic": None}), profile.columns)
    with pytest.raises(UsageError, match="traffic is"):
        concat([profile, plain])
