"""The order of calls to torch.cuda, against fakes that write them down."""

from contextlib import contextmanager

import pytest
import torch

from chunkfit.engine.graphs.capture import CAPTURES, CudaCapture

DEVICE = torch.device("cuda", 1)


@pytest.fixture
def calls(monkeypatch):
    seen = []

    class Stream:
        def __init__(self, name):
            self.name = name

        def wait_stream(self, other):
            seen.append(f"{self.name} waits for {other.name}")

    current = Stream("current")

    def new_stream(device):
        assert device == DEVICE
        return Stream("side")

    @contextmanager
    def inside(name, enter=()):
        seen.append(f"enter {name}")
        try:
            yield
        finally:
            seen.append(f"leave {name}")

    class Graph:
        made = 0
        capture_end_error = None

        def __init__(self):
            Graph.made += 1
            self.name = f"graph {Graph.made}"

        def capture_begin(self, pool, capture_error_mode):
            seen.append(f"{self.name} begins in {pool}, {capture_error_mode}")

        def capture_end(self):
            seen.append(f"{self.name} ends")
            if Graph.capture_end_error is not None:
                raise Graph.capture_end_error

        def replay(self):
            seen.append(f"{self.name} replays")

    pools = iter(["pool", "another pool"])
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: next(pools))
    monkeypatch.setattr(torch.cuda, "Stream", new_stream)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: current)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: seen.append("synchronize"))
    monkeypatch.setattr(torch.cuda, "device", lambda device: inside(str(device)))
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: inside(stream.name))
    seen_graph = Graph
    return seen, seen_graph


def test_warmed_beside_then_captured_into_the_pool_then_replayed(calls):
    seen, _ = calls
    capture = CudaCapture(DEVICE)
    runs = iter(["first", "second", "third", "fourth"])

    def function():
        seen.append("function")
        return next(runs)

    replay, result = capture(function)
    assert result == "second"  # of the run that was captured
    assert seen == [
        "enter cuda:1",
        "side waits for current",
        "enter side",
        "function",
        "synchronize",
        "graph 1 begins in pool, thread_local",
        "function",
        "graph 1 ends",
        "leave side",
        "current waits for side",
        "graph 1 replays",
        "leave cuda:1",
    ]
    seen.clear()
    replay()
    assert seen == ["graph 1 replays"]
    capture(function)
    assert "graph 2 begins in pool, thread_local" in seen


@pytest.mark.parametrize("also", [None, RuntimeError("CUDA error: capture was invalidated")])
def test_a_failed_capture_is_ended(calls, also):
    """Or the stream would stay in capture; what is said is why it failed, not that it did."""
    seen, graph = calls
    graph.capture_end_error = also
    runs = iter([None, torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 MiB")])

    def function():
        error = next(runs)
        if error is not None:
            raise error

    with pytest.raises(torch.OutOfMemoryError, match="2 MiB"):
        CudaCapture(DEVICE)(function)
    assert seen[-3:] == ["graph 1 ends", "leave side", "leave cuda:1"]
    assert "graph 1 replays" not in seen


def test_a_failed_warm_up_captures_nothing(calls):
    seen, _ = calls

    def function():
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(torch.OutOfMemoryError):
        CudaCapture(DEVICE)(function)
    assert seen[-2:] == ["leave side", "leave cuda:1"]
    assert not [call for call in seen if "begins" in call]


def test_only_gpus_capture():
    assert list(CAPTURES) == ["cuda"]
