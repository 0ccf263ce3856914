"""Capturing a function once and replaying it with one launch."""

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
        """A call that runs `function` again on the same tensors, and the result, whose tensors every replay overwrites.

        Memory that `function` allocates returns to the pool when its tensors are freed and may be reused by later
        captures. Pass data between captured functions only in tensors allocated before capture or kept alive.
        """


class CudaCapture:
    """Captures CUDA graphs. Each function runs once before its capture, which allows neither the compilation of kernels
    nor the allocation of workspaces for matrix products.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()
        # One stream for all captures: workspaces are kept by stream.
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
                # Calls of other threads do not end this capture.
                graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
                try:
                    result = function()
                except BaseException:
                    with suppress(RuntimeError):  # reports the failed capture once more
                        graph.capture_end()
                    raise
                graph.capture_end()
            current.wait_stream(self._stream)
            # Uploads the graph, and gives the next function real values for its first run.
            graph.replay()
        return graph.replay, result


# By kind of device; on other kinds every pass runs eagerly.
CAPTURES: dict[str, Callable[[torch.device], Capture]] = {"cuda": CudaCapture}
