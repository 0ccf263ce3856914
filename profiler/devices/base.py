"""What a sweep needs from a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ...tables.batch import Batch
from ...tables.domain import Domain
from ...tables.fingerprint import Fingerprint
from ..condition import DeviceState


@dataclass(frozen=True, slots=True)
class Sample:
    """One iteration: host wall clock, and device events where there are such."""

    latency_ms: float
    event_ms: float | None


class Device(Protocol):
    """Something whose iterations can be timed."""

    @property
    def fingerprint(self) -> Fingerprint: ...

    def prepare(self, batch: Batch) -> None:
        """Make `batch` what `run` computes. Raises DeviceMemoryError when it does not fit."""

    def run(self) -> Sample:
        """One iteration of the prepared batch, synchronous. Raises DeviceMemoryError."""

    def state(self) -> DeviceState:
        """Clocks and the like of this moment, as far as they are known."""


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """What to open: a model by preset name or config.json path, room for `domain`, a seed, a session.

    attention: the engine's backend, None leaves the choice to the engine. graphs: whether it captures CUDA graphs.
    synthetic_pause_ms: the synthetic device really waits that long in each iteration.
    """

    model: str
    domain: Domain
    seed: int
    session: str
    attention: str | None = None
    synthetic_pause_ms: float = 0.0
    graphs: bool = True
