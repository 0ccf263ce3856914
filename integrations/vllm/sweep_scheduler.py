"""vLLM's scheduler for a sweep: contexts that stand in the KV cache already, and one batch at a time."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from typing import Any

from .recorder import RecordingScheduler
from .work import Work

CLAIM = "chunkfit_claim"  # extra_args of a request: tokens whose KV it finds computed


class SweepScheduler(RecordingScheduler):
    """Requests may claim KV blocks that an earlier request filled, so a batch of any contexts costs one iteration.

    The blocks are taken as a prefix-cache hit is, and nobody else has them: each sequence reads its own memory.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.done: deque[tuple[Work, float]] = deque()
        self._filled: set[int] = set()  # ids of blocks that hold the KV of real tokens
        self._order: Iterator[int] = iter(())
        self._random = random.Random(0)
        # What the next iterations may compute of each request; False: one token, True: whatever is left.
        self._script: deque[bool] | None = None
        self.adaptive_long_prefill_threshold = False
        self.kv_cache_manager.get_computed_blocks = self._claimed

    def begin(self, *whole: bool) -> None:
        """The iterations of the next batch, after which nothing runs."""
        self._script = deque(whole)
        self.done.clear()
        # Which blocks is random per batch, as in an engine that has run for a while.
        self._order = iter(self._random.sample(sorted(self._filled), len(self._filled)))

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        config, budget = self.scheduler_config, self.max_num_scheduled_tokens
        threshold, filling = config.long_prefill_token_threshold, self._script is None
        # While the cache is filled, prompts that are whole hold their blocks and do not decode.
        held = [request for request in self.running if filling and not request.is_prefill_chunk]
        self.running = [request for request in self.running if request not in held] if held else self.running
        config.long_prefill_token_threshold = 0
        if self._script:
            if not self._script.popleft():
                config.long_prefill_token_threshold = 1
                self.max_num_scheduled_tokens = len(self.requests)
        elif not filling:
            self.max_num_scheduled_tokens = 0
        try:
            return super().schedule(*args, **kwargs)
        finally:
            self.running = held + self.running
            self.max_num_scheduled_tokens, config.long_prefill_token_threshold = budget, threshold

    def note_filled(self) -> None:
        """The blocks of those who run are filled."""
        for request in self.running:
            for group in self.kv_cache_manager.get_block_ids(request.request_id):
                self._filled.update(group)

    def iteration_done(self, work: Work, seconds: float, now: float, output: Any) -> None:
        self.done.append((work, seconds))

    def _claimed(self, request: Any) -> tuple[Any, int, int]:
        """As KVCacheManager.get_computed_blocks: the blocks of a claim, each of them free and filled.

        Nothing where there are too few; the batch is then not the one that was asked for, which the device sees.
        """
        manager, blocks = self.kv_cache_manager, self.kv_cache_manager.block_pool.blocks
        tokens = (request.sampling_params.extra_args or {}).get(CLAIM, 0)
        wanted = -(-tokens // self.block_size)
        free = (blocks[number] for number in self._order if blocks[number].ref_cnt == 0)
        found = [block for _, block in zip(range(wanted), free, strict=False)]
        if not found or len(found) < wanted:
            return manager.empty_kv_cache_blocks, 0, 0
        return manager.create_kv_cache_blocks((found,)), tokens, 0
