"""Cold timing: each call is timed by itself, on memory that is not in the cache.

An operator has several sets of buffers, used in random order. Between two uses of the same set at least 3 times the
last-level cache is touched, by the other sets or, where those are small, by writing a scratch buffer. On a CPU the
host's clock times each replay. On cuda a pair of events does, enqueued while the device is busy with copies, so that no
gap of the host lies between the two events; the time includes the cost of an event.

Activations that the operator before has just written, warm in service, are cold here too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from .results import ColdCheckV1

ROTATE = 3  # times the cache
# Where neither torch nor the kernel gives the size of the last-level cache: larger than most.
UNKNOWN_CACHE_BYTES = 64 << 20
CACHE_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
# A CUDA stream holds about 1,024 launches; an operator of torch attention is up to some twenty.
CUDA_ROUND = 32
WARMUPS = 3
COLD_RATIO = 1.1

Call = Callable[[], object]


class ColdTimer:
    """Times calls on one device. rotated_bytes: memory touched between two uses of the same buffer."""

    def __init__(self, device: torch.device, seed: int = 0) -> None:
        self.device = device
        self.cache_bytes = cache_bytes(device)
        self.rotated_bytes = ROTATE * self.cache_bytes
        self._rng = np.random.default_rng(seed)
        self._scratch = torch.ones(self.rotated_bytes // 4, device=device, dtype=torch.float32)

    def copies(self, footprint_bytes: int, replays: int) -> int:
        """Sets of buffers that `replays` replays of an operator of that size are to go through: 2 at least."""
        return max(2, min(replays, -(-self.rotated_bytes // max(footprint_bytes, 1)) + 1))

    def evict(self) -> None:
        """Writes the scratch buffer, so that everything else leaves the cache."""
        self._scratch.add_(1.0)

    def cold(self, calls: Sequence[Call], footprint_bytes: int, replays: int) -> list[float]:
        """`replays` times in ms, over `calls`, each on its own buffers of `footprint_bytes`."""
        self._warm_up(calls[0])
        # A set returns after all the others at the earliest, since one order serves all rounds.
        self_evicting = (len(calls) - 1) * footprint_bytes >= self.rotated_bytes or (
            footprint_bytes >= self.rotated_bytes
        )
        order = self._rng.permutation(len(calls)).tolist()
        times: list[float] = []
        while len(times) < replays:
            if not self_evicting or not times:
                self.evict()
            times += self._round([calls[i] for i in order[: replays - len(times)]])
        return times

    def warm(self, call: Call, replays: int) -> list[float]:
        """`replays` times in ms of one call on one set of buffers."""
        self._warm_up(call)
        return self._round([call] * replays)

    def cold_check(self, replays: int = 30) -> ColdCheckV1:
        """Reads a quarter of the cache, cold and warm."""
        probe_bytes = self.cache_bytes // 4
        probe = torch.ones(probe_bytes // 4, device=self.device, dtype=torch.float32)
        cold = []
        for _ in range(replays):
            cold += self.cold([probe.sum], probe_bytes, 1)
        p50, warm = float(np.median(cold)), float(np.median(self.warm(probe.sum, replays)))
        ratio = p50 / warm
        return ColdCheckV1(
            probe_bytes=probe_bytes, cold_p50_ms=p50, warm_p50_ms=warm, ratio=ratio, cold=ratio > COLD_RATIO
        )

    def _warm_up(self, call: Call) -> None:
        for _ in range(WARMUPS):
            call()
        self._wait()

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _round(self, calls: Sequence[Call]) -> list[float]:
        if self.device.type != "cuda":
            return [_clocked(call) for call in calls]
        times: list[float] = []
        for first in range(0, len(calls), CUDA_ROUND):
            times += self._cuda_round(calls[first : first + CUDA_ROUND])
        return times

    def _cuda_round(self, calls: Sequence[Call]) -> list[float]:
        pairs = [
            (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))  # type: ignore[no-untyped-call]
            for _ in calls
        ]
        # A pass over the scratch buffer takes 0.05 ms and more; enqueuing a call about as long.
        for _ in range(4 * len(calls)):
            self._scratch.add_(1.0)
        for call, (begin, end) in zip(calls, pairs, strict=True):
            begin.record()
            call()
            end.record()
        self._wait()
        return [begin.elapsed_time(end) for begin, end in pairs]


def _clocked(call: Call) -> float:
    begin = time.perf_counter_ns()
    call()
    return max(time.perf_counter_ns() - begin, 1) / 1e6


def cache_bytes(device: torch.device) -> int:
    """L2 of a GPU, the highest level a core of a CPU sees."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).L2_cache_size)
    return max(_host_caches().values(), default=UNKNOWN_CACHE_BYTES)


def _host_caches(folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> dict[str, int]:
    sizes = {}
    for index in folder.glob("index*"):
        try:
            size = (index / "size").read_text().strip()
            sizes[index.name] = int(size[:-1]) * CACHE_UNITS[size[-1]]
        except (OSError, ValueError, KeyError, IndexError):
            continue  # an undescribed cache is not counted
    return sizes
