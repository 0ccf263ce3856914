"""The device whose truth is known: `reference-v1` draws its iteration times from a formula."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np

from ...files.errors import UsageError
from ...tables.batch import Batch
from ...tables.fingerprint import Fingerprint
from ..condition import DeviceState
from .base import DeviceSpec, Sample
from .truth import NAME, layout_factor, sample_ms

# Validated from a dict: whatever is not named here stays unknown.
FINGERPRINT = Fingerprint.model_validate(
    {
        "device_kind": "synthetic",
        "device_name": NAME,
        "model_name": "none",
        "engine": "formula",
        "engine_version": "1",
    }
)


class SyntheticDevice:
    """Takes no time unless `synthetic_pause_ms` asks for a real pause in each iteration.

    Nothing of the model matters to it. A restarted session starts counting its visits anew, so a repeated
    sentinel may draw the noise of an earlier one.
    """

    def __init__(self, spec: DeviceSpec) -> None:
        self._spec = spec
        self._visits: Counter[tuple[int, int, int, int]] = Counter()
        self._point: tuple[int, int, int, int] | None = None
        self._factor = 1.0

    @property
    def fingerprint(self) -> Fingerprint:
        return FINGERPRINT

    def prepare(self, batch: Batch) -> None:
        self._point = batch.point()
        self._factor = layout_factor(batch)

    def run(self) -> Sample:
        if self._point is None:
            raise UsageError("SyntheticDevice.run before prepare; expected a prepared batch")
        if self._spec.synthetic_pause_ms:
            time.sleep(self._spec.synthetic_pause_ms / 1e3)
        visit = self._visits[self._point]
        self._visits[self._point] += 1
        points = np.asarray([self._point], dtype=np.int64)
        latency = sample_ms(points, np.asarray([visit]), self._spec.seed, self._spec.session)
        return Sample(float(latency[0]) * self._factor, None)

    def state(self) -> DeviceState:
        return DeviceState()
