"""A whole iteration of the engine, and the sum of its operators.

The difference is the time of metadata, embedding, sampling and launch gaps of the host, and, where the cache holds the
whole model, the difference between cold and warm operators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...engine.config import ModelConfig
from ...tables.batch import Batch
from ...tables.domain import Domain
from ..devices.base import DeviceSpec, Sample
from ..devices.torch_device import TorchDevice
from .operator_sizes import Point, parts_of
from .results import Key, OperatorRowV1, WholeV1

WARMUPS = 5


def open_engine(
    device: str,
    model: str,
    batches: Sequence[Point],
    seed: int,
    attention: str | None = None,
    graphs: bool = True,
) -> TorchDevice:
    """An engine with room for each of `batches`, as a sweep would measure it. Raises as `open_device`."""
    kv_tokens = max(n * k + c + u for n, k, c, u in batches)
    domain = Domain(
        max_decodes=max(max(n for n, *_ in batches), 1),
        max_context_tokens=kv_tokens,
        max_chunk_tokens=kv_tokens,
        max_prefix_tokens=kv_tokens,
        max_batch_tokens=kv_tokens,
        kv_tokens=kv_tokens,
        context_length=kv_tokens,
    )
    return TorchDevice(device, DeviceSpec(model, domain, seed, "microbench", attention, graphs=graphs))


def measure_iteration(
    engine: TorchDevice,
    config: ModelConfig,
    item: int,
    batch: Point,
    rows: Mapping[Key, OperatorRowV1],
    cache_bytes: int,
    repeats: int,
) -> WholeV1:
    """Times `batch` and subtracts its operators. Raises KeyError for an operator that was not timed and
    DeviceMemoryError for a batch that does not fit.
    """
    parts = [(times, rows[key]) for times, key in parts_of(config, batch)]
    n, k, c, u = batch
    engine.prepare(Batch.of(*batch))
    samples = _samples(engine, repeats)
    latencies = [sample.latency_ms for sample in samples]
    p50 = float(np.median(latencies))
    events = [sample.event_ms for sample in samples if sample.event_ms is not None]
    cold = sum(times * row.p50_ms for times, row in parts)
    kv_bytes = config.kv_bytes_per_token(item) * (n * k + u + c)
    return WholeV1(
        decodes=n,
        context_tokens=k,
        chunk_tokens=c,
        prefix_tokens=u,
        n=repeats,
        p50_ms=p50,
        fastest_ms=min(latencies),
        event_p50_ms=float(np.median(events)) if events else None,
        eager_p50_ms=_eager_p50_ms(engine, repeats) if engine.fingerprint.capture_sizes else None,
        operators_cold_ms=cold,
        operators_warm_ms=sum(times * row.warm_p50_ms for times, row in parts),
        rest_ms=p50 - cold,
        fits_cache=config.parameter_count * item + kv_bytes <= cache_bytes,
    )


def _eager_p50_ms(engine: TorchDevice, repeats: int) -> float:
    """Of the prepared batch, on the same pages."""
    with engine.eager():
        return float(np.median([sample.latency_ms for sample in _samples(engine, repeats)]))


def _samples(engine: TorchDevice, repeats: int) -> list[Sample]:
    for _ in range(WARMUPS):
        engine.run()
    return [engine.run() for _ in range(repeats)]
