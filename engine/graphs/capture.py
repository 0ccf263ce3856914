"""Capturing work once and replaying it at one launch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeVar

import torch

Replay = Callable[[], None]
T = TypeVar("T")


class Capture(Protocol):
    """Captures functions one after the other into one memory pool."""

    def __call__(self, function: Callable[[], T]) -> tuple[Replay, T]:
        """What runs `function` again on the tensors it met, and its result, whose tensors every replay overwrites.

        What `function` allocates may be used again by whatever is captured after it is released, so a replay may
        overwrite it: what one leaves for another lies in tensors made before, or held while the other is captured.
        """


class CudaCapture:
    """Into CUDA graphs. Functions are run before they are captured: kernels compile and load, and the workspaces of
    matrix products are allocated, where a capture allows neither.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()
        # One for all: workspaces are kept by stream.
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def __call__(self, function: Callable[[], T]) -> tuple[Replay, T]:
        with torch.cuda.device(self._device):
            current = torch.cuda.current_stream()
            self._stream.wait_stream(current)
            # Not `torch.cuda.graph`, which collects garbage and empties the allocator's cache at each of a thousand.
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.stream(self._stream):
                function()
                torch.cuda.synchronize()
                # Nothing that another thread calls meanwhile ends it.
                graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
                try:
                    result = function()
                except BaseException:
                    with suppress(RuntimeError):  # it says of the capture that it failed
                        graph.capture_end()
                    raise
                graph.capture_end()
            current.wait_stream(self._stream)
            # Uploads the graph, and what is captured next is warmed on real values.
            graph.replay()
        return graph.replay, result


# By kind of device; on the others everything runs as it is called.
CAPTURES: dict[str, Callable[[torch.device], Capture]] = {"cuda": CudaCapture}
