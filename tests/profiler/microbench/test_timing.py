"""Cold is cold, every replay is timed by itself, and on cuda nothing of the host lies between two events."""

import numpy as np
import pytest
import torch

from chunkfit.profiler.microbench import cold_timing
from chunkfit.profiler.microbench.cold_timing import ColdTimer

# The fixtures of this folder replace it.
CACHE_BYTES = cold_timing.cache_bytes
CPU = torch.device("cpu")


@pytest.fixture
def timer(monkeypatch):
    monkeypatch.setattr(cold_timing, "cache_bytes", lambda device: 1 << 20)
    return ColdTimer(CPU)


@pytest.mark.parametrize("footprint", [100, 50_000, 1_000_000, 2_000_000, 10_000_000])
def test_between_two_uses_of_a_buffer_lies_more_than_the_cache(timer, monkeypatch, footprint):
    """Bytes that others touch, and evictions, between any two uses of one set."""
    log = []
    monkeypatch.setattr(timer, "evict", lambda: log.append("evict"))
    copies = timer.copies(footprint, 50)
    assert copies >= 2
    calls = [lambda i=i: log.append(i) for i in range(copies)]
    times = timer.cold(calls, footprint, 120)
    assert len(times) == 120
    log = log[log.index("evict") :]  # the warm-up is before it
    last = {}
    for at, entry in enumerate(log):
        if entry == "evict":
            continue
        between = log[last.get(entry, 0) : at]
        touched = (len(between) - 1) * footprint
        assert "evict" in between or touched > timer.cache_bytes or footprint >= timer.rotated_bytes
        last[entry] = at
    assert len(last) == min(copies, 120)
    assert list(last) != sorted(last) or copies < 5, "the order is random"


def test_a_rotated_read_is_slower_than_a_repeated_one_on_this_machine(monkeypatch):
    monkeypatch.setattr(cold_timing, "cache_bytes", CACHE_BYTES)
    timer = ColdTimer(CPU)
    checks = [timer.cold_check() for _ in range(3)]
    assert max(check.ratio for check in checks) > cold_timing.COLD_RATIO
    assert all(check.cold == (check.ratio > cold_timing.COLD_RATIO) for check in checks)


def test_every_replay_is_one_call(timer):
    called = []
    times = timer.warm(lambda: called.append(1), 40)
    assert (len(times), len(called)) == (40, 40 + cold_timing.WARMUPS)
    assert min(times) > 0
    assert len(set(times)) > 1


class FakeCuda:
    """Events that say when they were recorded."""

    def __init__(self):
        self.log = []

    def Event(self, enable_timing):
        assert enable_timing
        return FakeEvent(self.log)

    def synchronize(self, device):
        self.log.append("wait")


class FakeEvent:
    def __init__(self, log):
        self.log = log

    def record(self):
        self.at = len(self.log)
        self.log.append("event")

    def elapsed_time(self, end):
        assert "wait" in self.log[end.at :]
        return float(end.at - self.at)


def test_on_cuda_calls_are_enqueued_behind_work_each_between_its_own_events(timer, monkeypatch):
    cuda = FakeCuda()
    monkeypatch.setattr(torch.cuda, "Event", cuda.Event)
    monkeypatch.setattr(torch.cuda, "synchronize", cuda.synchronize)
    timer.device = torch.device("cuda")
    timer._scratch = type("Scratch", (), {"add_": lambda self, x: cuda.log.append("busy")})()
    times = timer.cold([lambda: cuda.log.append("call")] * 2, 10_000_000, 40)
    assert times == [2.0] * 40
    text = " ".join(cuda.log[cold_timing.WARMUPS + 1 :])
    rounds = [part.strip() for part in text.split("wait") if part.strip()]
    assert [part.count("call") for part in rounds] == [2] * 20
    for part in rounds:
        assert part.startswith("busy busy busy")
        assert part.endswith("busy event call event event call event"), "no wait and no copy between the calls"


def test_the_largest_cache_is_found_and_strange_files_are_passed_over(tmp_path):
    for name, size in (("index0", "48K\n"), ("index3", "32M\n"), ("index4", "what"), ("index5", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "size").write_text(size)
    (tmp_path / "index6").mkdir()
    assert cold_timing._host_caches(tmp_path) == {"index0": 48 << 10, "index3": 32 << 20}
    assert CACHE_BYTES(CPU) >= 1 << 18
    assert np.isfinite(CACHE_BYTES(CPU))
