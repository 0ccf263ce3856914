"""Which batches count as measured: none of a range that a log lacks, nearly all of a log that lacks nothing."""

import numpy as np
import pytest
from support.fitting import fit
from support.synthetic_log import batches, logged

from chunkfit import CostTable
from chunkfit.files.errors import OutOfDomainError
from chunkfit.fitters.rows import held_out, rows_of
from chunkfit.fitters.support import calibration_rows, measured_support
from chunkfit.fitters.validate import validate_with_profile
from chunkfit.profiler.devices import truth
from chunkfit.profiler.profile import Profile
from chunkfit.profiler.synthetic_profile import synthetic_profile
from chunkfit.tables import Batch
from chunkfit.tables.batch import Point
from chunkfit.tables.support import SupportKind


def holes(low, high, column, other=None):
    """Batches outside a range of one column, or of the range of two."""

    def keep(points):
        inside = (points[:, column] >= low) & (points[:, column] <= high)
        if other:
            inside &= (points[:, other[2]] >= other[0]) & (points[:, other[2]] <= other[1])
        return ~inside

    return keep


def measured_share(profile, points):
    """Of points of the domain, the share that a table of the profile would call measured."""
    fit_rows = rows_of(profile, "fit")
    support = measured_support(profile, fit_rows, held_out(profile, "calibrate", fit_rows.scenes()))
    points = points[profile.meta.domain.contains(points)]
    if support is None:
        return 1.0
    return 1 - sum(len(rows) for rows, _ in support.unmeasured(points)) / len(points)


# The hole of the log, and batches well inside it.
HOLES = {
    "context": (holes(300, 3000, 1), lambda x: (x[:, 1] > 350) & (x[:, 1] < 2600)),
    "chunk": (holes(100, 1000, 2), lambda x: (x[:, 2] > 110) & (x[:, 2] < 900)),
    "prefix": (holes(200, 2000, 3), lambda x: (x[:, 3] > 220) & (x[:, 3] < 1800)),
    "decodes beside chunks": (
        holes(16, 64, 0, (64, 1024, 2)),
        lambda x: (x[:, 0] > 33) & (x[:, 0] < 63) & (x[:, 2] > 130) & (x[:, 2] < 500),
    ),
    "few decodes": (lambda x: (x[:, 0] == 0) | (x[:, 0] >= 8), lambda x: (x[:, 0] > 0) & (x[:, 0] < 8)),
    "short contexts": (lambda x: (x[:, 1] == 0) | (x[:, 1] >= 500), lambda x: (x[:, 1] > 0) & (x[:, 1] < 500)),
}


@pytest.mark.parametrize("name", HOLES)
def test_a_range_that_a_log_lacks_is_not_measured(name, tmp_path):
    keep, inside = HOLES[name]
    profile = logged(tmp_path, keep=keep)
    points = batches(77, 6000)
    assert inside(points).sum() > 30
    assert measured_share(profile, points[inside(points)]) == 0
    assert measured_share(profile, points[keep(points)]) > 0.9


def test_a_log_that_lacks_nothing_is_measured_nearly_everywhere(tmp_path):
    assert measured_share(logged(tmp_path), batches(77, 6000)) > 0.99


def test_a_plan_measures_all_of_its_domain():
    profile = synthetic_profile(3, fit_points=100, calibrate_points=60, test_points=30)
    assert measured_share(profile, batches(77, 300)) == 1
    assert measured_support(profile, rows_of(profile, "fit"), rows_of(profile, "calibrate")) is None


def test_a_few_stray_rows_open_no_range(tmp_path):
    """Three decodes of one very long context: other numbers of decodes were never seen with it."""

    def keep(points):
        return (points[:, 1] <= 1000) | ((points[:, 0] == 1) & (points[:, 1] > 2000) & (points[:, 2] == 0))

    profile = logged(tmp_path, keep=keep)
    points = batches(77, 6000)
    assert measured_share(profile, points[(points[:, 0] >= 8) & (points[:, 1] > 1100)]) == 0


@pytest.fixture(scope="module")
def one_context(tmp_path_factory):
    """A table of a log in which every decode has a context of 600 tokens."""
    folder = tmp_path_factory.mktemp("one")
    keep = HOLES["chunk"][0]
    profile = logged(folder, keep=lambda x: keep(x) & ((x[:, 1] == 0) | ((x[:, 1] >= 500) & (x[:, 1] <= 700))))
    sha = profile.save(folder / "p.parquet")
    table = fit(profile, profile_sha256=sha)
    table.save(folder / "t.json")
    return folder, table


def test_a_bound_by_order_is_that_of_a_measured_batch_and_covers(one_context):
    _, table = one_context
    points = batches(31, 8000)
    points = points[table.domain.contains(points)]
    points = points[table.arrays.answers(points)]
    kinds = np.array([table.support_of(Point(*point)) for point in points.tolist()])
    latency = truth.sample_ms(points, np.arange(len(points)), 11, "live")
    bound = table.read(points)[1]
    assert (kinds == SupportKind.BY_ORDER).sum() > 500
    assert (latency <= bound)[kinds == SupportKind.BY_ORDER].mean() > 0.99
    assert (latency <= bound)[kinds == SupportKind.MEASURED].mean() > 0.985


def test_shorter_contexts_have_the_bound_of_the_shortest_that_was_measured(one_context):
    _, table = one_context
    shortest = min(k for k in range(400, 701) if table.support(Batch.of(16, k)) is SupportKind.MEASURED)
    assert shortest >= 490
    assert table.bound_ms(Batch.of(16, 20)) == table.bound_ms(Batch.of(16, shortest))
    with pytest.raises(OutOfDomainError, match=r"no batch with as much work|above the measured limit"):
        table.bound_ms(Batch.of(16, 5000))


def test_the_certificate_is_of_measured_batches_and_the_table_validates(one_context):
    folder, table = one_context
    found, findings = validate_with_profile(folder / "t.json", folder / "p.parquet")
    assert findings == []
    profile = Profile.load(folder / "p.parquet")
    profile_rows = held_out(profile, "calibrate", rows_of(profile, "fit").scenes())
    assert found.certificate.points == len(calibration_rows(profile_rows, table.arrays.support, table.domain, 299))
    edited = table.document.model_copy(update={"support": None})
    CostTable(edited).save(folder / "edited.json")
    # The checksum is of the file before: both findings are named.
    wheres = [finding.where for finding in validate_with_profile(folder / "edited.json", folder / "p.parquet")[1]]
    assert "$.support" in wheres
