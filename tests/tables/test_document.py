"""The file format: exact round trips, and a clear refusal of everything else."""

import json
import re

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from support.random_tables import random_table

from chunkfit.files.errors import StorageError, TableFormatError
from chunkfit.tables import CostTable
from chunkfit.tables.document import MAX_BYTES, checksum, dumps, last_complete_path, parse
from chunkfit.tables.export import schema_text, shipped_schema
from chunkfit.tables.schema_v1 import TableV1


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "table.json"
    random_table(7).save(path)
    return path


def edit(path, change, reseal=True):
    """Change the parsed content and write it back, with the checksum of what is there now."""
    content = json.loads(path.read_text())
    change(content)
    if reseal:
        content["content_sha256"] = checksum(content)
    path.write_text(json.dumps(content))
    return path


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_save_and_load_is_exact(tmp_path_factory, seed):
    path = tmp_path_factory.mktemp("t") / "table.json"
    table = random_table(seed)
    table.save(path)
    again = CostTable.load(path)
    assert again.document == table.document
    assert dumps(again.document) == path.read_text()


def test_key_order_does_not_matter(saved):
    content = json.loads(saved.read_text())
    saved.write_text(json.dumps(dict(reversed(content.items()))))
    assert CostTable.load(saved).document.content_sha256 == content["content_sha256"]


def test_the_file_obeys_the_shipped_schema(saved):
    schema = json.loads(shipped_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(saved.read_text()), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(saved.read_text()) | {"extra": 1}, schema)


def test_the_shipped_schema_is_fresh():
    assert shipped_schema() == schema_text(), "run python -m chunkfit.tables.export"


def test_an_edit_by_hand_is_noticed(saved):
    edit(saved, lambda c: c["scenes"]["decode"]["ladder"]["bound_ms"].__setitem__(-1, 1e6), reseal=False)
    with pytest.raises(TableFormatError, match=r"checksum.*changed after it was written"):
        CostTable.load(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(colour="red"), r"\$\.colour.*Extra inputs"),
        (lambda c: c.update(schema_version=99), r"\$\.schema_version is 99; this chunkfit reads 1"),
        (lambda c: c.update(schema_version=True), r"\$\.schema_version is True"),
        (lambda c: c.update(format="correctionlib"), r"\$\.format is 'correctionlib'"),
        (lambda c: c["domain"].pop("kv_tokens"), r"\$\.domain\.kv_tokens: Field required"),
        (lambda c: c["domain"].update(kv_tokens="many"), r"\$\.domain\.kv_tokens.*found 'many'"),
        (lambda c: c["axes"]["decodes"]["knots"].append(1), r"\$\.axes\.decodes\.knots\[\d+\]: 1 after \d+"),
        (lambda c: c["axes"]["decodes"].update(knots=[2, 3]), r"knots\[0\] is 2; expected 1"),
        (lambda c: c["scenes"]["mixed"]["base"]["bound_ms"].append(1.0), r"mixed\.base\.bound_ms has \d+ values"),
        (lambda c: c["scenes"]["mixed"]["base"]["measured"].pop(), r"mixed\.base\.measured has \d+ values"),
        (lambda c: c["scenes"]["decode"]["ladder"]["bound_ms"].__setitem__(0, 0.1), r"ladder\.bound_ms\[0\] is 0\.1"),
        (lambda c: c["scenes"]["decode"]["ladder"]["bound_ms"].__setitem__(0, -1.0), r"bound_ms\[0\].*found -1\.0"),
        (lambda c: c.update(aggregation="mean"), r"\$\.aggregation.*found 'mean'"),
        (lambda c: c.update(scenes={}), r"\$\.scenes"),
    ],
)
def test_wrong_content_is_refused_by_path(saved, change, message):
    with pytest.raises(TableFormatError, match=message):
        CostTable.load(edit(saved, change))


def test_a_bound_below_less_work_is_refused_by_cell(saved):
    def lower(content):
        bounds = content["scenes"]["mixed"]["ladder"]["bound_ms"]
        bounds[-1] = content["scenes"]["mixed"]["ladder"]["expected_ms"][-1] = 0.0

    with pytest.raises(TableFormatError, match=r"\$\.scenes\.mixed\.ladder\.\w+\[\d+\] \(n \+ c \d+\).*less work"):
        CostTable.load(edit(saved, lower))


def test_nan_and_twice_the_same_key(saved):
    text = saved.read_text()
    saved.write_text(text.replace('"created_by": "test"', '"created_by": NaN'))
    with pytest.raises(TableFormatError, match="holds NaN"):
        CostTable.load(saved)
    saved.write_text(text.replace('"created_by": "test"', '"created_by": "test", "created_by": "me"'))
    with pytest.raises(TableFormatError, match="'created_by' appears twice"):
        CostTable.load(saved)


def test_a_cut_file_tells_offset_line_and_last_complete_path(saved):
    text = saved.read_text()
    cut = text.index('"base"')
    saved.write_text(text[:cut])
    with pytest.raises(TableFormatError) as raised:
        CostTable.load(saved)
    message = str(raised.value)
    assert f"byte offset {cut:,}" in message
    assert f"line {text[:cut].count(chr(10)) + 1}" in message
    assert re.search(r"last complete path: \$\.scenes\.\w+\.ladder", message)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 400_000))
def test_wherever_it_is_cut_the_reader_says_so(at):
    text = dumps(random_table(7).document)
    at %= len(text.rstrip())
    with pytest.raises(TableFormatError, match="byte offset"):
        parse(text[:at], "table.json")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("", "none"),
        ('{"a": 12', "none"),
        ('{"a": 12, "b', "$.a"),
        ('{"a": [1, 2, 3', "$.a[1]"),
        ('{"a": {"b": [[1], [2', "$.a.b[0]"),
        ('{"a": "x\\"y", "b": ', "$.a"),
        ('{"a": {"b": 1}, "c": [', "$.a"),
    ],
)
def test_last_complete_path(text, path):
    assert last_complete_path(text) == path


def test_oversized_missing_and_binary_files(tmp_path):
    big = tmp_path / "big.json"
    with big.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(TableFormatError, match="67,108,865 bytes; expected at most 67,108,864"):
        CostTable.load(big)
    with pytest.raises(TableFormatError, match="No such file"):
        CostTable.load(tmp_path / "absent.json")
    (tmp_path / "bin.json").write_bytes(b"{\xff")
    with pytest.raises(TableFormatError, match="byte 1 is not UTF-8"):
        CostTable.load(tmp_path / "bin.json")
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(TableFormatError, match="is a list; expected an object"):
        CostTable.load(tmp_path / "list.json")


def test_an_unwritable_place_keeps_what_was_there(saved, monkeypatch):
    before = saved.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StorageError, match="No space left on device"):
        random_table(8).save(saved)
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == ["table.json"]
    with pytest.raises(StorageError, match="cannot be written"):
        random_table(8).save(saved.parent / "absent" / "table.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["axes"]["decodes"]["knots"].append(1), r"\$\.axes\.decodes\.knots\[\d+\]: 1 after \d+"),
        (lambda c: c["axes"]["prefix_tokens"].update(knots=[0, 10**9]), r"\$\.axes\.prefix_tokens\.knots ends at"),
        (lambda c: c["scenes"]["mixed"]["base"]["bound_ms"].append(1.0), r"mixed\.base\.bound_ms has \d+ values"),
        (lambda c: c["scenes"]["decode"]["ladder"]["bound_ms"].__setitem__(0, 0.1), r"ladder\.bound_ms\[0\] is 0\.1"),
    ],
)
def test_the_model_itself_refuses_what_is_no_table(saved, change, message):
    content = json.loads(saved.read_text())
    change(content)
    with pytest.raises(ValidationError, match=message):
        TableV1.model_validate_json(json.dumps(content))
