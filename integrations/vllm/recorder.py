"""vLLM's own scheduler, unchanged, that writes down what each iteration computed and how long it took."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from vllm.logger import init_logger
from vllm.v1.core.sched.async_scheduler import AsyncScheduler

from .facts import facts_of
from .options import options_of
from .record_file import RecordFile, line_of
from .work import Stopwatch, Work, work_of

logger = init_logger(__name__)


class RecordingScheduler(AsyncScheduler):
    """`--scheduler-cls chunkfit.integrations.vllm.RecordingScheduler`, files in the folder `record` of
    `--additional-config '{"chunkfit": {"record": "FOLDER"}}'`.

    `chunkfit ingest vllm FILE` makes a profile of a file. Decides nothing: schedule() and update_from_output() are
    the engine's, with and without asynchronous scheduling.
    """

    # vLLM's, as far as schedulers derived from this one change them for the time of a call.
    running: list[Any]
    waiting: Any
    kv_holding_waiting: Any
    max_num_scheduled_tokens: int
    max_num_active_reqs: int

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.clock = time.perf_counter
        self.options = options_of(self.vllm_config.additional_config)
        self._stopwatch = Stopwatch()
        self._epoch = time.time() - self.clock()
        self._record: RecordFile | None = None
        if self.options.record is not None:
            facts = facts_of(self.vllm_config)
            self._record = RecordFile(Path(self.options.record), facts, logger.warning)
            logger.info("chunkfit: iterations are recorded in %s", self.options.record)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        output = super().schedule(*args, **kwargs)
        work = work_of(output.num_scheduled_tokens, output.scheduled_spec_decode_tokens, self.requests)
        self._stopwatch.scheduled(work, self.clock())
        return output

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        now = self.clock()
        work, seconds = self._stopwatch.updated(now)
        if work is not None:
            self.iteration_done(work, seconds, now, model_runner_output)
        return super().update_from_output(scheduler_output, model_runner_output)

    def iteration_done(self, work: Work, seconds: float, now: float, output: Any) -> None:
        """An iteration's output has arrived, at `now`."""
        if self._record is not None:
            stats = output.cudagraph_stats
            graph = "" if stats is None else stats.runtime_mode
            self._record.write(line_of(work.contexts, work.chunks, seconds, self._epoch + now, graph))

    def shutdown(self) -> None:
        if self._record is not None:
            self._record.close()
        super().shutdown()
