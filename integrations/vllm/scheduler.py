"""SLOWeave, or any policy of ours, inside vLLM: how many prompt tokens this iteration takes, vLLM does the rest."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from itertools import chain, islice
from typing import Any

from vllm.logger import init_logger
from vllm.v1.core.sched.request_queue import create_request_queue

from ...scheduler.compiled import slower_note
from ...scheduler.policies.policy_options import PRIORITIES
from ...scheduler.serving_state import NEVER, NO_TARGET
from ...tables.lookup import TICKS_PER_MS
from .counters import Counters
from .decision import Decider, load_table, warm_up
from .facts import fingerprint_of
from .followed import FollowedRequests
from .options import TPOT, TTFT, request_target_ms
from .recorder import RecordingScheduler
from .state import Decodes, PromptState, Room, target_ticks, ticks
from .work import Work

logger = init_logger(__name__)

WAITING_SEEN = 16  # of those who wait, in vLLM's order: each is looked up in the prefix cache
LEFT_OVER = 1024  # requests that are remembered beyond those in flight


class SLOWeaveScheduler(RecordingScheduler):
    """`--scheduler-cls chunkfit.integrations.vllm.SLOWeaveScheduler`, options in `--additional-config`.

    vLLM schedules as ever, from a view in which the decodes come first, of all prompts only those are there that the
    policy chose, and the token budget is the decodes' tokens and the chosen chunks. Raises when it is made whatever
    `load_table` raises: without a table of this engine it does not start.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        table = load_table(self.options, fingerprint_of(self.vllm_config))
        places = self.max_num_running_reqs
        self._decider = Decider(table, self.options, places * (1 + self.num_spec_tokens) + places + WAITING_SEEN)
        warm_up(self._decider, self.block_size)
        self._followed = FollowedRequests(self._decider.policy.options.get("late") == "leave_out")
        # End in ticks, bound in ms and prompt tokens of the iterations under way.
        self._under_way: deque[tuple[int, float | None, int]] = deque()
        self._last_ticks = 0  # of an iteration
        # Ticks from the beginning of a decision to the end of schedule(), of late.
        self._overheads: deque[int] = deque(maxlen=16)
        self.counters = Counters()
        note = slower_note()
        if note is not None:
            logger.warning("chunkfit: %s", note)
        domain, longest = table.document.domain, self.max_model_len
        if domain.max_prefix_tokens + domain.max_chunk_tokens < longest - 1 or domain.max_context_tokens < longest - 1:
            logger.warning(
                "chunkfit: %s was measured to contexts of %d and prefixes of %d tokens, the engine takes requests of "
                "%d: beyond them prompts advance one block at a time",
                self.options.table,
                domain.max_context_tokens,
                domain.max_prefix_tokens,
                longest,
            )

    def add_request(self, request: Any) -> None:
        said = getattr(request.sampling_params, "extra_args", None)
        waited = max(0.0, time.time() - request.arrival_time)
        self._followed.join(
            request.request_id,
            ticks(self.clock() - waited),
            target_ticks(request_target_ms(said, TTFT, self.options.ttft_ms), NEVER),
            target_ticks(request_target_ms(said, TPOT, self.options.tpot_ms), NO_TARGET),
        )
        super().add_request(request)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        begin, really = self.clock(), time.perf_counter()
        now = self._begins(begin)
        decodes = self._decodes(now)
        prompts, requests = self._prompts()
        pool = self.kv_cache_manager.block_pool
        room = Room(
            max(0, self.max_num_active_reqs - len(self.running) - self.num_waiting_for_streaming_input),
            pool.get_num_free_blocks(),
            self.block_size,
            self.max_num_scheduled_tokens,
        )
        decision = self._decider.decide(now, decodes, prompts, room)
        took = time.perf_counter() - really
        chosen = [requests[i] for i, _ in decision.chosen]
        largest = max((tokens for _, tokens in decision.chosen), default=0)
        budget = min(self.max_num_scheduled_tokens, len(decodes.contexts) + decision.chunk_tokens)
        output = self._schedule_only(chosen, budget, largest, args, kwargs)
        if output.num_scheduled_tokens:
            end = ticks(self.clock())
            self._overheads.append(end - ticks(begin))
            lasts = self._last_ticks if decision.bound_ms is None else round(decision.bound_ms * TICKS_PER_MS)
            self._under_way.append((max(now, end) + lasts, decision.bound_ms, decision.chunk_tokens))
        counters = self.counters
        counters.chunk_tokens = decision.chunk_tokens
        counters.budget_us = round(1e3 * (decision.budget_ms or 0))
        counters.bound_us = round(1e3 * (decision.bound_ms or 0))
        counters.decision_us = round(1e6 * took)
        counters.decisions += 1
        counters.decision_us_total += counters.decision_us
        counters.prompt_tokens_total += counters.chunk_tokens
        counters.outside += decision.outside
        counters.by_order += decision.by_order
        return output

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        now = ticks(self.clock())
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        for client in outputs.values():
            for output in client.outputs:
                if output.new_token_ids:
                    self._followed.token(output.request_id, now)
        self.counters.misses = self._followed.misses
        self.counters.late_first_tokens = self._followed.late_first_tokens
        if len(self._followed) > 2 * len(self.requests) + LEFT_OVER:
            self._followed.keep(self.requests)
        return outputs

    def iteration_done(self, work: Work, seconds: float, now: float, output: Any) -> None:
        super().iteration_done(work, seconds, now, output)
        _, bound_ms, chunk_tokens = self._under_way.popleft()
        self._last_ticks = ticks(seconds)
        self.counters.over_bound += bound_ms is not None and 1e3 * seconds > bound_ms + 1 / TICKS_PER_MS
        self._decider.over(max(1, self._last_ticks), chunk_tokens)

    def make_stats(self, *args: Any, **kwargs: Any) -> Any:
        stats = super().make_stats(*args, **kwargs)
        if stats is not None and self.lora_config is None:
            stats.waiting_lora_adapters = self.counters.sent()
        return stats

    def _begins(self, clock_s: float) -> int:
        """Ticks at which the iteration in hand begins: after schedule(), and after what is under way."""
        begins = ticks(clock_s) + max(self._overheads, default=0)
        return max(begins, self._under_way[-1][0]) if self._under_way else begins

    def _decodes(self, now: int) -> Decodes:
        """One entry for each token that a decode computes, those of vLLM's own arithmetic."""
        decodes = Decodes()
        for request in self.running:
            computed, pending = request.num_computed_tokens, request.num_output_placeholders
            if request.is_prefill_chunk or (
                pending > 0 and computed + 2 - pending >= request.num_prompt_tokens + request.max_tokens
            ):
                continue
            followed = self._followed[request.request_id]
            tokens = min(request.num_tokens_with_spec + pending, self.max_model_len - 1) - computed
            last_token = now if pending else followed.last_token
            generated = request.num_output_tokens + min(pending, 1)
            for context in range(computed + 1, computed + tokens + 1):
                decodes.add(context, last_token, followed.schedule, generated, followed.tpot, level(request.priority))
        return decodes

    def _prompts(self) -> tuple[list[PromptState], list[Any]]:
        """Begun prompts, then those who wait and can begin, in vLLM's order."""
        begun = [request for request in self.running if request.is_prefill_chunk]
        waiting = [
            request
            for request in islice(chain(self.kv_holding_waiting, self.waiting), WAITING_SEEN)
            if self._handle_blocked_waiting_request(request)
            and not (request.num_stale_output_tokens and not request.drop_stale_output)
        ]
        requests, prompts = [*begun, *waiting], []
        for i, request in enumerate(requests):
            followed, computed = self._followed[request.request_id], request.num_computed_tokens
            if not computed:
                computed = self.kv_cache_manager.get_computed_blocks(request)[1]
            prompts.append(
                PromptState(
                    request.request_id,
                    request.num_tokens,
                    computed,
                    i < len(begun),
                    followed.arrival,
                    followed.first_deadline,
                    followed.tpot,
                    request.num_output_tokens,
                    level(request.priority),
                )
            )
        return prompts, requests

    def _schedule_only(
        self, chosen: Sequence[Any], budget: int, largest: int, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """vLLM's schedule() of all decodes and of the chosen prompts, at most `budget` tokens, `largest` of one."""
        config = self.scheduler_config
        limits = self.max_num_scheduled_tokens, self.max_num_active_reqs, config.long_prefill_token_threshold
        queues = self.waiting, self.kv_holding_waiting
        begun = [request for request in chosen if request in self.running]
        decodes = [request for request in self.running if not request.is_prefill_chunk]
        held = [request for request in self.running if request.is_prefill_chunk and request not in begun]
        self.running = decodes + begun
        self.waiting, self.kv_holding_waiting = (self._taken_from(queue, chosen) for queue in queues)
        self.max_num_scheduled_tokens, self.max_num_active_reqs = budget, limits[1] - len(held)
        # A decode that vLLM preempts leaves its tokens to others; no prompt may take them.
        if largest > self.num_spec_tokens and not 0 < limits[2] < largest:
            config.long_prefill_token_threshold = largest
        try:
            return super().schedule(*args, **kwargs)
        finally:
            left = self.waiting, self.kv_holding_waiting
            self.waiting, self.kv_holding_waiting = queues
            for queue, rest in zip(queues, left, strict=True):
                queue.prepend_requests(reversed(list(rest)))
            self.running = self.running + held
            self.max_num_scheduled_tokens, self.max_num_active_reqs, config.long_prefill_token_threshold = limits

    def _taken_from(self, queue: Any, chosen: Sequence[Any]) -> Any:
        """A queue of those of `chosen` who are in `queue`, in the order they were chosen; they leave it."""
        there = set(queue) if chosen else set()
        taken = create_request_queue(self.policy)
        for request in chosen:
            if request in there:
                queue.remove_request(request)
                taken.add_request(request)
        return taken


def level(priority: int) -> int:
    """vLLM's priority, any whole number, as a level that policies know: 0 is the highest."""
    return min(max(priority, 0), PRIORITIES - 1)
