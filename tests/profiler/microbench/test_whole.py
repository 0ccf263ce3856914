"""Whole iterations with graphs stand beside the same without."""

from types import SimpleNamespace

import pytest
from support.fake_graphs import FakeCapture

from chunkfit.engine import PRESETS
from chunkfit.engine.graphs import runner
from chunkfit.engine.graphs.capture import CAPTURES
from chunkfit.profiler.devices.torch_device import TorchDevice
from chunkfit.profiler.microbench import iterations


@pytest.mark.parametrize("graphs", [True, False])
def test_without_graphs_is_timed_where_there_are_any(monkeypatch, graphs):
    monkeypatch.setattr(runner, "CAPTURE_SIZES", (1, 4))
    monkeypatch.setattr(runner, "DECODE_SIZES", (1,))
    if graphs:
        monkeypatch.setitem(CAPTURES, "cpu", FakeCapture)
    monkeypatch.setattr(iterations, "parts_of", lambda config, batch: [(1, "all")])
    engine = iterations.open_engine("cpu", "tiny", [(2, 20, 0, 0)], seed=0)
    assert bool(engine.fingerprint.capture_sizes) == graphs
    # Which of the iterations are timed: the device's own clock is not for tests.
    ran = []

    def run(device):
        ran.append(device._engine._graphs is not None)
        return SimpleNamespace(latency_ms=7.0 if ran[-1] else 9.0, event_ms=None)

    monkeypatch.setattr(TorchDevice, "run", run)
    rows = {"all": SimpleNamespace(p50_ms=1.0, warm_p50_ms=1.0)}
    found = iterations.measure_iteration(engine, PRESETS["tiny"], 4, (2, 20, 0, 0), rows, 1 << 20, 3)
    times = iterations.WARMUPS + 3
    assert ran == ([True] * times + [False] * times if graphs else [False] * times)
    assert (found.p50_ms, found.eager_p50_ms) == ((7.0, 9.0) if graphs else (9.0, None))
    assert (engine._engine._graphs is not None) == graphs
