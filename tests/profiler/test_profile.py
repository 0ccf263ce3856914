"""Profile files: exact round trips, and bad ones refused with the place and the value."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from chunkfit.files.errors import FingerprintMismatchError, ProfileFormatError, StorageError, UsageError
from chunkfit.profiler.meta import ProfileMeta
from chunkfit.profiler.profile import Profile, concat, file_sha256
from chunkfit.profiler.synthetic_profile import synthetic_profile


@pytest.fixture(scope="module")
def profile():
    return synthetic_profile(1, fit_points=60, calibrate_points=30, test_points=30)


def changed(profile, **columns):
    return {**{name: column.copy() for name, column in profile.columns.items()}, **columns}


def test_round_trip_is_exact(profile, tmp_path):
    path = tmp_path / "p.parquet"
    sha = profile.save(path)
    again = Profile.load(path)
    assert again.meta == profile.meta
    for name, column in profile.columns.items():
        assert again.columns[name].dtype.kind == column.dtype.kind
        assert np.array_equal(again.columns[name], column, equal_nan=column.dtype.kind == "f")
    assert sha == file_sha256(path)
    assert again.save(tmp_path / "q.parquet") == sha
    assert [p.name for p in tmp_path.iterdir() if p.name not in ("p.parquet", "q.parquet")] == []


def test_select_takes_session_and_role(profile):
    assert set(profile.select("fit").columns["role"]) == {"point"}
    assert set(profile.select("fit", role=None).columns["role"]) == {"point", "anchor", "sentinel", "unequal", "chunks"}
    assert len(profile.select(role="sentinel")) == sum(profile.columns["role"] == "sentinel")
    assert profile.select("test").points().shape == (30, 4)


@pytest.mark.parametrize("bad", [np.nan, 0.0, -3.5, np.inf])
def test_an_impossible_latency_names_row_and_values(profile, bad):
    latency = profile.columns["latency_ms"].copy()
    latency[17] = bad
    n, k, c, u = profile.points()[17]
    with pytest.raises(ProfileFormatError, match=rf"row 17 .*n {n}, k {k}, c {c}, u {u}\): latency_ms = {bad}"):
        Profile(profile.meta, changed(profile, latency_ms=latency), "here")


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("event_ms", -1.0, "event_ms = -1.0"),
        ("decodes", -2, "decodes = -2"),
        ("scene", "prefills", "scene = prefills"),
        ("role", "pilot", "role = pilot; expected one of point, anchor, sentinel, unequal, chunks"),
        ("started_s", np.inf, "started_s = inf"),
        ("sm_clock_mhz", -1.0, "sm_clock_mhz = -1.0; expected NaN"),
        ("power_w", np.inf, "power_w = inf"),
        ("tries", 0, "tries = 0; expected 1 or more"),
        ("throttle", "", "throttle = ; expected unknown, none or reasons"),
        ("layout", "15,1|", r"layout = 15,1\|; expected one of the row's totals, and empty"),
    ],
)
def test_other_impossible_values_are_refused(profile, column, value, message):
    values = profile.columns[column].astype("U2000" if isinstance(value, str) else profile.columns[column].dtype)
    values[3] = value
    with pytest.raises(ProfileFormatError, match=f"row 3 .*{message}"):
        Profile(profile.meta, changed(profile, **{column: values}))


def test_a_layout_must_be_of_the_rows_totals(profile):
    row = int(np.flatnonzero(profile.columns["layout"] != "")[0])
    for bad in ("|", "3,1|", profile.columns["layout"][row] + ",1@0"):
        layouts = profile.columns["layout"].copy().astype("U2000")
        layouts[row] = bad
        with pytest.raises(ProfileFormatError, match=rf"row {row} .*layout = "):
            Profile(profile.meta, changed(profile, layout=layouts))
    roles = profile.columns["role"].copy()
    roles[row] = "point"
    with pytest.raises(ProfileFormatError, match=rf"row {row} .*layout = .*empty unless the row is of a pair"):
        Profile(profile.meta, changed(profile, role=roles))


def test_columns_must_be_there_of_one_length_and_type(profile):
    columns = changed(profile)
    del columns["flagged"]
    with pytest.raises(ProfileFormatError, match=r"missing: \['flagged'\]"):
        Profile(profile.meta, columns)
    with pytest.raises(ProfileFormatError, match=r"unknown: \['extra'\]"):
        Profile(profile.meta, changed(profile, extra=profile.columns["order"]))
    with pytest.raises(ProfileFormatError, match="column order has shape"):
        Profile(profile.meta, changed(profile, order=profile.columns["order"][:-1]))
    with pytest.raises(ProfileFormatError, match="column order holds float64; expected int64"):
        Profile(profile.meta, changed(profile, order=profile.columns["order"] + 0.5))


@pytest.mark.parametrize("text", ["iterations", "mean", "mean:0", "mean:x", "", "mean:3 "])
def test_aggregation_is_one_of_three_kinds(profile, text):
    with pytest.raises(ValidationError, match="expected iteration, mean:N"):
        ProfileMeta.model_validate({**profile.meta.model_dump(), "aggregation": text})


def test_aggregation_takes_the_three_kinds(profile):
    for text in ("iteration", "mean:10", "unknown"):
        assert ProfileMeta.model_validate({**profile.meta.model_dump(), "aggregation": text}).aggregation == text


def test_files_that_are_not_profiles_are_refused(profile, tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        Profile.load(tmp_path / "absent.parquet")
    text = tmp_path / "text.parquet"
    text.write_text("decodes,latency\n1,2\n")
    with pytest.raises(ProfileFormatError, match="not a readable Parquet file"):
        Profile.load(text)
    path = tmp_path / "p.parquet"
    profile.save(path)
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ProfileFormatError, match="not a readable Parquet file"):
        Profile.load(cut)
    table = pq.ParquetFile(path).read()
    pq.write_table(table.replace_schema_metadata({}), path)
    with pytest.raises(ProfileFormatError, match="without chunkfit metadata"):
        Profile.load(path)
    newer = profile.meta.model_dump_json().replace('"profile_version":1', '"profile_version":2')
    pq.write_table(table.replace_schema_metadata({"chunkfit": newer}), path)
    with pytest.raises(ProfileFormatError, match="profile_version is 2; this chunkfit reads 1"):
        Profile.load(path)
    pq.write_table(table.replace_schema_metadata({"chunkfit": '{"profile_version": 1}'}), path)
    with pytest.raises(ProfileFormatError, match="metadata: fingerprint: Field required"):
        Profile.load(path)
    pq.write_table(table.drop_columns(["latency_ms"]), path)
    with pytest.raises(ProfileFormatError, match=r"missing: \['latency_ms'\]"):
        Profile.load(path)
    holes = pa.array([None, *table.column("latency_ms").to_pylist()[1:]])
    place = table.schema.get_field_index("latency_ms")
    pq.write_table(table.set_column(place, "latency_ms", holes), path)
    with pytest.raises(ProfileFormatError, match="latency_ms has 1 empty values"):
        Profile.load(path)


def test_an_unwritable_path_is_a_storage_error(profile, tmp_path):
    with pytest.raises(StorageError, match="cannot be written"):
        profile.save(tmp_path / "no-such-folder" / "p.parquet")


def test_concat_joins_profiles_of_one_device(profile):
    other = synthetic_profile(2, fit_points=60, calibrate_points=30, test_points=30)
    both = concat([profile, other])
    assert len(both) == len(profile) + len(other)
    fit = both.meta.sessions["fit"]
    assert fit.points == 2 * profile.meta.sessions["fit"].points
    assert fit.sentinel.n == 2 * profile.meta.sessions["fit"].sentinel.n
    ids = {tuple(row) for row in np.column_stack([both.columns["point_id"], both.points()]).tolist()}
    assert len(ids) == len({i for i, *_ in ids})  # no id stands for two points
    (first,) = both.meta.joined
    assert first == profile.columns["point_id"].max() + 1
    assert int((both.columns["point_id"] >= first).sum()) == len(other)
    assert concat([profile]).meta.joined == ()
    third = synthetic_profile(3, fit_points=60, calibrate_points=30, test_points=30)
    nested = concat([third, both])
    assert nested.meta.joined == concat([third, profile, other]).meta.joined
    assert len(nested.meta.joined) == 2


def test_concat_refuses_the_same_measurements_twice(profile):
    other = synthetic_profile(2, fit_points=60, calibrate_points=30, test_points=30)
    for again in ([profile, profile], [profile, concat([other, profile])]):
        with pytest.raises(UsageError, match=r"rows hold the same measurements.*give each profile once"):
            concat(again)


def test_concat_refuses_another_device_naming_both(profile):
    alien = profile.meta.fingerprint.model_copy(update={"device_name": "reference-v2"})
    other = Profile(profile.meta.model_copy(update={"fingerprint": alien}), profile.columns, "other.parquet")
    with pytest.raises(FingerprintMismatchError, match=r"seed 1 and other\.parquet.*reference-v2"):
        concat([profile, other])
    unknown = Profile(profile.meta.model_copy(update={"aggregation": "unknown"}), profile.columns, "import")
    with pytest.raises(UsageError, match="aggregation is iteration and unknown"):
        concat([profile, unknown])
