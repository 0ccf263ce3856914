"""The recorder's files: whole lines whatever happens, rotated, and read back as a profile."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from chunkfit.files.errors import LogFormatError, StorageError
from chunkfit.integrations.vllm.record_file import FILES, RecordFile, line_of
from chunkfit.profiler.importers.ingest import ingest
from chunkfit.tables.fingerprint import Fingerprint

ENGINE = Fingerprint(device_kind="cpu", engine="vllm", engine_version="0.32.0", capture_sizes=(1, 2, 4))
FACTS = {"fingerprint": ENGINE.model_dump(mode="json")}


def never(text):
    raise AssertionError(text)


def test_what_is_written_is_a_profile(tmp_path):
    record = RecordFile(tmp_path / "made" / "here", FACTS, never)
    record.write(line_of([512, 31], [(256, 0)], 0.0124, 100.5, "PIECEWISE"))
    record.write(line_of([513], [], 0.004, 100.6, "FULL"))
    record.close()
    (file,) = (tmp_path / "made" / "here").iterdir()
    ingested = ingest("vllm", file)
    assert ingested.profile.points().tolist() == [[2, 272, 256, 0], [1, 513, 0, 0]]
    assert ingested.profile.columns["latency_ms"].tolist() == [12.4, 4.0]
    assert ingested.profile.meta.fingerprint == ENGINE
    assert ingested.profile.meta.aggregation == "iteration"
    assert ingested.unread == {"graph": ["PIECEWISE", "FULL"]}


def test_files_rotate_and_the_oldest_go(tmp_path):
    record = RecordFile(tmp_path, FACTS, never, file_bytes=600)
    for i in range(100):
        record.write(line_of([100 + i], [], 0.01, float(i), ""))
    record.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) == FILES
    assert all(file.stat().st_size <= 600 for file in files)
    assert all(json.loads(file.read_text().splitlines()[0])["chunkfit_record"] == 1 for file in files)
    joined = tmp_path / "joined.jsonl"
    joined.write_bytes(b"".join(file.read_bytes() for file in files))
    contexts = ingest("vllm", joined, split="time").profile.points()[:, 1].tolist()
    assert contexts == list(range(200 - len(contexts), 200))


def test_a_killed_engine_leaves_whole_lines(tmp_path):
    code = (
        "import pathlib, sys, time\nfrom chunkfit.integrations.vllm.record_file import RecordFile, line_of\n"
        f"record = RecordFile(pathlib.Path({str(tmp_path)!r}), {FACTS!r}, print)\n"
        "while True:\n    record.write(line_of(list(range(1, 200)), [], 0.01, time.time(), ''))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    while not any(file.stat().st_size > 50_000 for file in tmp_path.iterdir()):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (file,) = tmp_path.iterdir()
    assert not ingest("vllm", file).left_out


def test_a_full_disk_ends_the_recording_and_nothing_else(tmp_path, monkeypatch):
    said = []
    record = RecordFile(tmp_path, FACTS, said.append)
    monkeypatch.setattr(os, "write", lambda descriptor, data: (_ for _ in ()).throw(OSError(28, "No space left")))
    record.write(b"{}\n")
    record.write(b"{}\n")
    assert len(said) == 1
    assert "recording has stopped (No space left); the engine goes on" in said[0]


def test_a_folder_that_cannot_be_written_is_said_before_the_engine_serves(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="expected a folder for the recorder's files"):
        RecordFile(tmp_path / "file" / "folder", FACTS, never)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            '{"decode_contexts": [1], "chunks": [], "latency_ms": 1.0, "time_s": 1.0}\n',
            "column chunkfit_record: not there",
        ),
        ('{"chunkfit_record": 2, "fingerprint": {}}\n', "column chunkfit_record: 2; expected 1"),
        ('{"chunkfit_record": 1, "fingerprint": {"gpu": 1}}\n', "column fingerprint: .*expected facts about device"),
        (
            '{"chunkfit_record": 1, "fingerprint": {"engine": "vllm"}}\n{"chunkfit_record": 1, "fingerprint": {}}\n',
            "line 2, column fingerprint: .*join files of one engine only",
        ),
    ],
)
def test_files_that_are_no_record_are_refused(tmp_path, lines, message):
    (tmp_path / "log.jsonl").write_text(lines)
    with pytest.raises(LogFormatError, match=message):
        ingest("vllm", tmp_path / "log.jsonl")
