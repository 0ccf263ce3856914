"""The scheduler's numbers in vLLM's log and, where prometheus_client is there (vLLM needs it), in its metrics."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from prometheus_client import Gauge
from vllm.logger import init_logger
from vllm.v1.metrics.loggers import StatLoggerBase

from .counters import PREFIX, Counters

logger = init_logger(__name__)


class ChunkfitStatLogger(StatLoggerBase):
    """vLLM loads it by its entry point; it is silent where another scheduler runs."""

    _gauges: dict[str, Gauge] | None = None

    def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
        self._engine = str(engine_index)
        self._newest: Counters | None = None

    def record(
        self, scheduler_stats: Any, iteration_stats: Any, mm_cache_stats: Any = None, engine_idx: int = 0
    ) -> None:
        counters = None if scheduler_stats is None else Counters.received(scheduler_stats.waiting_lora_adapters)
        if counters is None:
            return
        self._newest = counters
        if ChunkfitStatLogger._gauges is None:  # one registry for all engines of a process
            ChunkfitStatLogger._gauges = {
                field.name: Gauge(f"vllm:{PREFIX}{field.name}", f"chunkfit: {field.name}", ["engine"])
                for field in fields(Counters)
            }
        for name, gauge in ChunkfitStatLogger._gauges.items():
            gauge.labels(self._engine).set(getattr(counters, name))

    def log(self) -> None:
        if self._newest is not None:
            logger.info("chunkfit, engine %s: %s", self._engine, self._newest.title())

    def log_engine_initialized(self) -> None:
        """Nothing to say."""
