"""The reference engine on cpu and cuda, timed."""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager

import numpy as np
import torch

from ...engine.config import MOST_CHUNKS
from ...engine.engine import Engine
from ...engine.facts import fingerprint
from ...engine.hf_config import resolve_model
from ...engine.host_step import SequenceWork
from ...engine.kv_cache import PAGE_SIZE, pages_for
from ...engine.memory import page_slack
from ...files.errors import UsageError
from ...files.gpu import gpu_uuid
from ...tables.batch import Batch
from ...tables.fingerprint import Fingerprint
from ..condition import DeviceState
from .base import DeviceSpec, Sample
from .nvml import monitor


def open_engine(device: str, spec: DeviceSpec) -> Engine:
    """The engine for measurements and for live serving: room for the whole domain, one core left free on a CPU. Raises
    as `Engine`.
    """
    if device == "cpu" and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(measuring_threads())
    # The domain counts tokens; each sequence may leave most of its last page empty.
    slack = page_slack(spec.domain.max_decodes + MOST_CHUNKS)
    return Engine(
        resolve_model(spec.model),
        device=device,
        kv_tokens=spec.domain.kv_tokens + slack,
        seed=spec.seed,
        attention=spec.attention,
        graphs=spec.graphs,
    )


class TorchDevice:
    """Measures batches of random tokens on a KV pool that is filled once.

    Every sequence of a batch has its own pages: shared pages would mean fewer reads of memory than in service. Pages
    are drawn at random for each batch, as in an engine that has run for a while.
    """

    def __init__(self, device: str, spec: DeviceSpec) -> None:
        self._engine = open_engine(device, spec)
        self._pages = np.asarray(self._engine.allocator.allocate(self._engine.kv_tokens // PAGE_SIZE), dtype=np.int64)
        self._rng = np.random.default_rng([spec.seed, *spec.session.encode()])
        engine = self._engine
        self._fingerprint = fingerprint(engine.config, device, engine.dtype, engine.attention, engine.capture_sizes)
        self._work: tuple[list[SequenceWork], list[SequenceWork]] | None = None
        self._state = monitor(uuid_of(self._engine.device))
        self._events = _timing_events() if self._engine.device.type == "cuda" else None

    @property
    def fingerprint(self) -> Fingerprint:
        return self._fingerprint

    def prepare(self, batch: Batch) -> None:
        pages = self._rng.permutation(self._pages)
        vocabulary = self._engine.config.vocab_size
        taken = 0

        def block_table(tokens: int) -> list[int]:
            nonlocal taken
            start, taken = taken, taken + pages_for(tokens)
            table: list[int] = pages[start:taken].tolist()
            return table

        decodes = [
            SequenceWork([int(self._rng.integers(vocabulary))], context - 1, block_table(context))
            for context in batch.decode_contexts
        ]
        chunks = [
            SequenceWork(
                torch.from_numpy(self._rng.integers(vocabulary, size=chunk.chunk_tokens)),
                chunk.prefix_tokens,
                block_table(chunk.prefix_tokens + chunk.chunk_tokens),
            )
            for chunk in batch.chunks
        ]
        self._work = decodes, chunks

    def run(self) -> Sample:
        """Host clock from call to tokens on the host: building the metadata, the pass and sampling.

        The engine is synchronous, so one call starts where the last one ended, but for the microseconds
        between two calls.
        """
        if self._work is None:
            raise UsageError("TorchDevice.run before prepare; expected a prepared batch")
        decodes, chunks = self._work
        begin = time.perf_counter()
        if self._events is None:
            self._engine.iterate(decodes, chunks)
            return Sample((time.perf_counter() - begin) * 1e3, None)
        first, last = self._events
        first.record()
        self._engine.iterate(decodes, chunks)
        latency_ms = (time.perf_counter() - begin) * 1e3
        last.record()
        last.synchronize()
        return Sample(latency_ms, first.elapsed_time(last))

    def eager(self) -> AbstractContextManager[None]:
        """Inside, `run` uses no CUDA graphs."""
        return self._engine.eager()

    def state(self) -> DeviceState:
        return self._state()


def measuring_threads() -> int:
    """Threads for torch on a CPU: one core stays free, where there are two.

    torch's threads wait for each other after every operation. When one of them loses its core, for example to the
    progress bar of the parent, the others wait for a whole scheduler slice: beside other work a 3.6 ms iteration took
    450 ms on both of two cores and 3.6 ms on one.
    """
    return max(1, len(os.sched_getaffinity(0)) - 1)


def uuid_of(device: torch.device) -> str | None:
    """UUID of a GPU; None on a CPU, and where torch does not know it."""
    return gpu_uuid(device) if device.type == "cuda" else None


def _timing_events() -> tuple[torch.cuda.Event, torch.cuda.Event]:
    first = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    last = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    return first, last
