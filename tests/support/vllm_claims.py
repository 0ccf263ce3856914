"""A sweep's device against the engine itself, in turns: python -m support.vllm_claims MODEL. Prints JSON."""

from __future__ import annotations

import json
import os
import sys
from functools import partial

import numpy as np

from chunkfit.files.errors import DeviceMemoryError
from chunkfit.integrations.vllm.device import VllmDevice, open_engine
from chunkfit.integrations.vllm.facts import domain_of
from chunkfit.integrations.vllm.recorder import RecordingScheduler
from chunkfit.tables.batch import Batch
from support.vllm_harness import ENGINE

DECODES, CONTEXT, TURNS, STEPS = 6, 600, 6, 20
BATCHES = [
    Batch.of(4, 300),
    Batch.of(4, 300, 128, 0),
    Batch.of(4, 300, 128, 333),
    Batch.of(0, 0, 200, 0),
    Batch.of(0, 0, 200, 333),
    Batch.of(1, 2),
    Batch.with_chunks([500, 20, 30], [(50, 10), (60, 0)]),
    Batch.of(7, 1000, 1, 1),
    Batch.of(0, 0, 700, 900),
]


def main(model: str) -> None:
    out = os.dup(1)
    os.dup2(2, 1)
    engine = open_engine(model, ENGINE)
    device = VllmDevice(engine, domain_of(engine.vllm_config), seed=1)
    mismatched = []
    for batch in BATCHES:
        device.prepare(batch)
        try:
            device.run()
        except DeviceMemoryError as error:
            mismatched.append(str(error))
    scheduler, claimed, computed = device._scheduler, [], []
    for _ in range(TURNS):
        device.prepare(Batch.of(DECODES, CONTEXT))
        claimed += [device.run().latency_ms for _ in range(STEPS)]
        scheduler.done.clear()
        scheduler.schedule = partial(RecordingScheduler.schedule, scheduler)
        names = [device._add(CONTEXT - STEPS // 2, 0) for _ in range(DECODES)]
        decoded = []
        while len(decoded) < STEPS:
            engine.step()
            decoded = [1e3 * s for work, s in scheduler.done if len(work.contexts) == DECODES and not work.chunks]
        computed += decoded
        del scheduler.schedule
        device._drop(names)
    said = {
        "claimed_ms": float(np.median(claimed)),
        "computed_ms": float(np.median(computed)),
        "mismatched": mismatched,
    }
    os.write(out, json.dumps(said).encode())


if __name__ == "__main__":
    main(sys.argv[1])
