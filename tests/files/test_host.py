from pathlib import Path

import pytest

from chunkfit.files import host


def test_memory_is_what_the_host_has(monkeypatch):
    monkeypatch.setattr(host, "_number", lambda _: None)
    total, available = host.memory_bytes()
    assert 0 < available <= total
    assert 1 << 20 < host.resident_bytes() < total


def test_a_container_limit_counts(monkeypatch):
    limits = {"/sys/fs/cgroup/memory.max": 1000, "/sys/fs/cgroup/memory.current": 400}
    monkeypatch.setattr(host, "_number", limits.get)
    assert host.memory_bytes() == (1000, 600)


def test_a_limit_that_is_no_number_is_none(tmp_path):
    (tmp_path / "max").write_text("max\n")
    (tmp_path / "number").write_text("4096\n")
    assert host._number(str(tmp_path / "max")) is None
    assert host._number(str(tmp_path / "absent")) is None
    assert host._number(str(tmp_path / "number")) == 4096


def test_the_processor_has_a_name(monkeypatch):
    assert host.cpu_name()

    def absent(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", absent)
    assert isinstance(host.cpu_name(), str)


@pytest.mark.parametrize(("package", "installed"), [("numpy", True), ("no-such-package", False)])
def test_versions(package, installed):
    assert (host.installed_version(package) is not None) == installed
