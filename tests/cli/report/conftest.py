"""Evidence of a synthetic table, of an invalid one and of an imported log, made once."""

import pytest
from support.engine_log import COLUMNS, write_engine_log
from support.fitting import fit

from chunkfit.cli.report.evidence import gather
from chunkfit.profiler.importers.ingest import ingest
from chunkfit.profiler.synthetic_profile import synthetic_profile
from chunkfit.tables.cost_table import CostTable
from chunkfit.tables.document import sealed
from chunkfit.tables.fingerprint import Fingerprint


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """profile.parquet, table.json, and promised.json, which promises more than its rows carry."""
    folder = tmp_path_factory.mktemp("page")
    profile = synthetic_profile(0, fit_points=150, calibrate_points=320, test_points=320)
    table = fit(profile, fitter="linear", profile_sha256=profile.save(folder / "profile.parquet"))
    table.save(folder / "table.json")
    certificate = table.document.certificate.model_copy(update={"coverage": 0.999})
    CostTable(sealed(table.document.model_copy(update={"certificate": certificate}))).save(folder / "promised.json")
    return folder


@pytest.fixture(scope="session")
def evidence(folder):
    return gather(folder / "table.json", folder / "profile.parquet")


@pytest.fixture(scope="session")
def imported(folder):
    """A log of a device with a hostile name."""
    log = write_engine_log(folder / "log.csv")
    stated = Fingerprint(device_name="<script>alert('T & U')</script>")
    profile = ingest(
        "table", log, COLUMNS, aggregation="iteration", split="time", shares=(50, 35, 15), stated=stated
    ).profile
    sha = profile.save(folder / "log.parquet")
    fit(profile, profile_sha256=sha).save(folder / "log.json")
    return gather(folder / "log.json", folder / "log.parquet")
