"""The journal: what a kill may leave is tolerated, all other damage is named with its line."""

import errno
import math
import os
import subprocess
import sys
import time

import pytest

from chunkfit.files.errors import (
    ChunkfitError,
    FingerprintMismatchError,
    ProfileFormatError,
    StorageError,
    UsageError,
)
from chunkfit.profiler.condition import Condition, DeviceState
from chunkfit.profiler.devices.base import Sample
from chunkfit.profiler.devices.synthetic import FINGERPRINT
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.journal import parse_journal, read_journal
from chunkfit.profiler.journal_writer import open_journal
from chunkfit.profiler.plan import PlanOptions, draw_plan
from chunkfit.profiler.sweep import profile_of_journal

PLAN = draw_plan(
    SYNTHETIC_DOMAIN, (129,), 0, PlanOptions(fit_points=9, calibrate_points=6, test_points=6, anchors=3, pairs=1)
)

HOT = Condition(state=DeviceState(sm_clock_mhz=1200, throttle=("hw_slowdown",)), flagged=True, tries=2)


def write(path, points=4, plan=PLAN, fingerprint=FINGERPRINT, session="fit"):
    with open_journal(path, plan, fingerprint, patience_s=0.1) as journal:
        journal.start(session)
        done = journal.contents.done(session)
        todo = [point for point in plan.points(session) if point.point_id not in done]
        for order, point in enumerate(todo[:points], start=journal.contents.next_order(session)):
            journal.measured(session, point, order, journal.now(), [Sample(8.5 + order, None)] * point.repeats, HOT)
    return path


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "p.journal.jsonl")


def test_what_is_written_is_read(path):
    contents = read_journal(path)
    assert contents.header.plan == PLAN
    assert contents.header.fingerprint == FINGERPRINT
    assert contents.done("fit") == {point.point_id for point in PLAN.fit[:4]}
    assert contents.done("test") == set()
    assert contents.next_order("fit") == 4
    assert contents.lines[1].condition == HOT
    assert contents.lines[1].repeats == ((8.5, None),) * PLAN.fit[0].repeats


def test_a_cut_at_any_byte_of_the_last_line_loses_that_line_alone(path):
    data = path.read_bytes()
    last = data[:-1].rfind(b"\n") + 1
    for cut in range(last, len(data)):
        contents = parse_journal(data[:cut], "journal")
        assert len(contents.lines) == 4
        assert contents.intact_bytes == last
    assert len(parse_journal(data, "journal").lines) == 5


def test_a_cut_line_is_replaced_when_writing_goes_on(path):
    path.write_bytes(path.read_bytes()[:-7])
    write(path, points=20)
    contents = read_journal(path)
    assert contents.done("fit") == {point.point_id for point in PLAN.fit}
    assert [line.kind for line in contents.lines].count("start") == 2


def test_a_cut_header_is_an_empty_journal(path):
    path.write_bytes(path.read_bytes()[:300])
    assert read_journal(path).header is None
    with pytest.raises(UsageError, match="the journal is empty"):
        profile_of_journal(read_journal(path), "p")
    write(path, points=2)
    assert len(read_journal(path).done("fit")) == 2


def damaged(path, number, change):
    lines = path.read_bytes().split(b"\n")
    lines[number - 1] = change(lines[number - 1])
    path.write_bytes(b"\n".join(lines))
    return path


@pytest.mark.parametrize(
    ("number", "change", "message"),
    [
        (3, lambda line: line[:-4], r"line 3: \$: Invalid JSON"),
        (3, lambda line: b"", "line 3: "),
        (4, lambda line: b"\xff\xfe", "line 4: "),
        (
            3,
            lambda line: line.replace(b"8.5", b"-8.5", 1),
            r"line 3: \$\.measured\.repeats\[0\]\[0\]: .*greater than 0.*-8.5",
        ),
        (3, lambda line: line.replace(b"8.5", b"NaN", 1), r"line 3: \$\.measured\.repeats\[0\]\[0\]: .*finite.*nan"),
        (3, lambda line: line.replace(b"8.5", b"0.0", 1), r"line 3: \$\.measured\.repeats\[0\]\[0\]: .*greater than 0"),
        (3, lambda line: line.replace(b'"kind":"measured"', b'"kind":"guessed"'), "line 3: .*guessed"),
        (3, lambda line: line.replace(b'"order"', b'"place"'), "line 3: .*order: Field required"),
        (3, lambda line: b'{"kind":"end","session":"fit","ended_s":1,"complete":true,"x":1}', "line 3: .*x: Extra"),
        (1, lambda line: line.replace(b'"journal_version":1', b'"journal_version":2'), "line 1: .*journal_version"),
    ],
)
def test_other_damage_is_named_with_its_line(path, number, change, message):
    with pytest.raises(ProfileFormatError, match=message):
        read_journal(damaged(path, number, change))


def test_a_point_stands_once_and_in_the_plan(path):
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines[:-1], lines[2], b""]))
    with pytest.raises(ProfileFormatError, match=r"line 7: point \d+ of session fit stands on line 3 too"):
        read_journal(path)
    point = PLAN.fit[0].point_id
    path.write_bytes(b"\n".join([*lines[:2], lines[2].replace(b'"point_id":%d,' % point, b'"point_id":777,'), b""]))
    with pytest.raises(ProfileFormatError, match="line 3: point 777 of session fit is not in the plan"):
        read_journal(path)


def test_the_header_comes_first_and_once(path):
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[1], lines[0], b""]))
    with pytest.raises(ProfileFormatError, match="line 1: found a line of kind start"):
        read_journal(path)


def test_another_plan_or_device_is_refused_and_nothing_changes(path):
    before = path.read_bytes()
    other = draw_plan(
        SYNTHETIC_DOMAIN, (129,), 1, PlanOptions(fit_points=9, calibrate_points=6, test_points=6, anchors=3)
    )
    with pytest.raises(UsageError, match=r"another plan .*seed 0; asked .*seed 1"):
        write(path, plan=other)
    for change in ({"device_name": "reference-v2"}, {"torch": "9.9"}):
        with pytest.raises(FingerprintMismatchError, match=f"{next(iter(change))}: .* in the journal"):
            write(path, fingerprint=FINGERPRINT.model_copy(update=change))
    assert path.read_bytes() == before


@pytest.mark.parametrize("bad", [math.nan, 0.0, -1.0, math.inf])
def test_a_device_that_reports_nonsense_is_stopped(path, bad):
    before = path.read_bytes()
    with (
        pytest.raises(ProfileFormatError, match=r"session test, point \d+ \(n \d+.*reported.*expected finite"),
        open_journal(path, PLAN, FINGERPRINT) as journal,
    ):
        journal.measured("test", PLAN.test[0], 0, 0.0, [Sample(bad, None)], HOT)
    assert path.read_bytes() == before


def test_a_second_writer_is_told_who_writes(path):
    code = (
        "import sys, time; from pathlib import Path\n"
        "from chunkfit.profiler.journal import read_journal\n"
        "from chunkfit.profiler.journal_writer import open_journal\n"
        "h = read_journal(sys.argv[1]).header\n"
        "with open_journal(Path(sys.argv[1]), h.plan, h.fingerprint) as j:\n"
        "    j.start('fit'); print('ready', flush=True); time.sleep(60)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"ready\n"
        begin = time.monotonic()
        with pytest.raises(ChunkfitError, match=f"is being written by process {holder.pid}"):
            write(path)
        assert time.monotonic() - begin < 5
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    write(path, points=1)  # the lock died with its holder


def test_a_full_disk_keeps_what_was_measured(path, monkeypatch):
    real = os.write

    def full(descriptor, data):
        if len(data) > 20 and b"measured" in bytes(data):
            real(descriptor, bytes(data)[:11])  # the disk takes a little more ...
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageError, match=r"No space left on device.*what was measured before is kept"):
        write(path)
    monkeypatch.undo()
    assert len(read_journal(path).done("fit")) == 4
    write(path, points=1)
    assert len(read_journal(path).done("fit")) == 5


def test_an_unwritable_place_is_a_storage_error(tmp_path):
    with pytest.raises(StorageError, match="cannot be written"):
        write(tmp_path / "absent" / "p.journal.jsonl")
