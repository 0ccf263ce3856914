"""One scheduler that is three in turns. By its dotted name: vLLM imports it once its worker is there, as in service."""

from __future__ import annotations

from vllm.v1.core.sched.async_scheduler import AsyncScheduler

from chunkfit.integrations.vllm.recorder import RecordingScheduler
from chunkfit.integrations.vllm.scheduler import SLOWeaveScheduler

HOMES = {"default": AsyncScheduler, "recorded": RecordingScheduler, "sloweave": SLOWeaveScheduler}


class InTurns(SLOWeaveScheduler):
    """kind says whose schedule() and update_from_output() run.

    iterations: (kind, requests that were decoding, decodes that ran, prompt tokens that ran, those decided, seconds).
    """

    kind = "default"

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.iterations = []

    def schedule(self, *args, **kwargs):
        self.decoding = sum(not request.is_prefill_chunk for request in self.running)
        return HOMES[self.kind].schedule(self, *args, **kwargs)

    def update_from_output(self, scheduler_output, model_runner_output):
        return HOMES[self.kind].update_from_output(self, scheduler_output, model_runner_output)

    def iteration_done(self, work, seconds, now, output):
        batch = work.batch()
        decided = self.counters.chunk_tokens
        self.iterations.append((self.kind, self.decoding, batch.decodes, batch.chunk_tokens, decided, seconds))
        HOMES[self.kind].iteration_done(self, work, seconds, now, output)
