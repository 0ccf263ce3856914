import subprocess
import sys

import pytest
import torch

from chunkfit.engine import PRESETS, facts, fingerprint, machine_facts
from chunkfit.files import host
from chunkfit.files.errors import DeviceUnavailableError
from chunkfit.tables.fingerprint import Fingerprint, require_same


def test_cpu_fingerprint():
    found = fingerprint(PRESETS["tiny"], "cpu", torch.float32, "torch", ())
    assert found.device_kind == "cpu"
    assert found.device_name
    assert found.cpu_threads == torch.get_num_threads()
    assert found.sm_count is None
    assert found.driver is None
    assert found.device_memory_bytes > 0
    assert found.model_name == "tiny"
    assert found.model_shape == PRESETS["tiny"].shape()
    assert found.dtype == "float32"
    assert (found.engine, found.attention_backend, found.capture_sizes) == ("chunkfit-engine", "torch", ())
    assert found.torch == torch.__version__
    assert found.tensor_parallel == 1
    assert Fingerprint.model_validate_json(found.model_dump_json()) == found
    require_same(found, fingerprint(PRESETS["tiny"], "cpu", torch.float32, "torch", ()), "the same twice")


def test_machine_facts():
    found = machine_facts()
    assert found.cpu_threads == torch.get_num_threads()
    assert 0 < found.free_bytes <= found.memory_bytes
    assert (found.cuda_problem is None) == torch.cuda.is_available()
    assert len(found.gpus) == (torch.cuda.device_count() if torch.cuda.is_available() else 0)


def test_why_there_is_no_cuda(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    assert "built without CUDA" in facts.cuda_problem()
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    def no_driver():
        raise RuntimeError("Found no NVIDIA driver on your system.\nmore")

    monkeypatch.setattr(torch.cuda, "init", no_driver)
    problem = facts.cuda_problem()
    assert "CUDA 12.8" in problem
    assert "Found no NVIDIA driver on your system.; expected" in problem
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(DeviceUnavailableError, match=r"torch sees 2 GPU\(s\)"):
        facts.require_device("cuda:2")
    assert facts.require_device("cuda:1") == torch.device("cuda:1")


def test_a_container_limit_counts(monkeypatch):
    limits = {"/sys/fs/cgroup/memory.max": 1000, "/sys/fs/cgroup/memory.current": 400}
    monkeypatch.setattr(host, "_number", limits.get)
    assert facts.memory_bytes(torch.device("cpu")) == (1000, 600)


def test_importing_the_package_imports_no_torch():
    code = (
        "import sys, chunkfit.engine as engine; engine.resolve_model('tiny'); "
        "assert 'torch' not in sys.modules, 'torch'; assert engine.Engine and 'torch' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_loads():
    import chunkfit.engine as package

    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Missing'"):
        _ = package.Missing
