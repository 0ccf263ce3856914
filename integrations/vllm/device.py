"""A vLLM engine as a device of the sweep: every batch of a plan is run by the engine itself."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from vllm import EngineArgs, SamplingParams
from vllm.platforms import current_platform
from vllm.utils.argparse_utils import FlexibleArgumentParser
from vllm.v1.engine.llm_engine import LLMEngine

from ...files.errors import DeviceMemoryError, UsageError
from ...files.gpu import gpu_uuid
from ...profiler.condition import DeviceState
from ...profiler.devices.base import Sample
from ...profiler.devices.nvml import monitor
from ...tables.batch import Batch, Chunk
from ...tables.domain import Domain
from ...tables.fingerprint import Fingerprint
from .facts import domain_of, fingerprint_of
from .sweep_scheduler import CLAIM, SweepScheduler

FIRST_TOKEN = 3  # ids below it are special to most models
MOST_STEPS = 8  # of the engine until a batch of two iterations is done


def open_engine(model: str, arguments: Sequence[str]) -> LLMEngine:
    """An engine in this process with the sweep's scheduler. Raises UsageError for arguments that vLLM refuses."""
    parser = EngineArgs.add_cli_args(FlexibleArgumentParser(exit_on_error=False))
    try:
        parsed = EngineArgs.from_cli_args(parser.parse_args(["--model", model, *arguments]))
    except (Exception, SystemExit) as error:
        raise UsageError(f"vLLM refuses the engine arguments {list(arguments)}: {error}") from error
    if parsed.scheduler_cls is not None:
        raise UsageError(
            f"--scheduler-cls {parsed.scheduler_cls}: a sweep needs its own scheduler; leave the option out"
        )
    parsed.scheduler_cls = SweepScheduler
    if current_platform.is_cpu() and parsed.distributed_executor_backend is None:
        parsed.distributed_executor_backend = "mp"  # as in service: with the core in one's own process it is another
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # the engine core in this process, where it can be driven
    return LLMEngine.from_engine_args(parsed)


class VllmDevice:
    """Times single iterations of known totals.

    A run takes two iterations: one admits the requests, each of which computes one token after what it claims; the
    next is the timed one, with a token for each decode and the whole chunks. Then all of them are dropped, so that
    every repeat is of the same contexts. KV is of real tokens, computed once when the engine starts.
    """

    def __init__(self, engine: LLMEngine, domain: Domain, seed: int) -> None:
        """domain: what will be asked, within the engine's own. Raises UsageError where it is wider."""
        self._engine = engine
        self._core: Any = engine.engine_core.engine_core
        self._scheduler: SweepScheduler = self._core.scheduler
        self._rng = np.random.default_rng(seed)
        self._vocabulary = engine.vllm_config.model_config.get_vocab_size()
        self._ids = map("chunkfit-{}".format, itertools.count())
        self._batch = Batch.of(1, 2)
        own = domain_of(engine.vllm_config)
        wider = [name for name in Domain.model_fields if getattr(domain, name) > getattr(own, name)]
        if wider:
            raise UsageError(
                f"the plan's {wider[0]} is {getattr(domain, wider[0]):,}, this engine holds "
                f"{getattr(own, wider[0]):,}; expected the engine arguments that the plan was drawn with"
            )
        self._fingerprint = fingerprint_of(engine.vllm_config)
        self._state = monitor(_uuid(self._fingerprint.device_kind))
        self._fill(domain.kv_tokens)

    @property
    def fingerprint(self) -> Fingerprint:
        return self._fingerprint

    def prepare(self, batch: Batch) -> None:
        """Raises DeviceMemoryError for a decode of one token: vLLM decodes after a prompt of at least one."""
        if batch.decode_contexts and min(batch.decode_contexts) < 2:
            raise DeviceMemoryError("a decode of context 1 would have no prompt, which vLLM does not take")
        longest = self._engine.vllm_config.model_config.max_model_len - 1
        self._batch = Batch(
            batch.decode_contexts, tuple(part for chunk in batch.chunks for part in parts(chunk, longest))
        )

    def run(self) -> Sample:
        """Raises DeviceMemoryError where the engine ran another batch: it had no room or no place for this one."""
        scheduler, batch = self._scheduler, self._batch
        names = [self._add(context - 1, context - 2) for context in batch.decode_contexts]
        # A prompt from its first token on is admitted by the timed iteration itself, as in service.
        later, begun = [chunk for chunk in batch.chunks if not chunk.prefix_tokens], bool(names)
        for chunk in batch.chunks:
            if chunk.prefix_tokens:
                begun = True
                names.append(self._add(chunk.prefix_tokens + chunk.chunk_tokens, chunk.prefix_tokens - 1))
        iterations = (False, True) if begun else (True,)
        scheduler.begin(*iterations)
        if begun:
            self._engine.step()
        names += [self._add(chunk.chunk_tokens, 0) for chunk in later]
        for _ in range(MOST_STEPS):
            if len(scheduler.done) == len(iterations):
                break
            self._engine.step()
        self._drop(names)
        if len(scheduler.done) < len(iterations) or not _same(scheduler.done[-1][0].batch(), batch):
            ran = scheduler.done[-1][0].batch().point() if scheduler.done else "nothing"
            raise DeviceMemoryError(f"asked for (n, k, c, u) = {batch.point()}, the engine ran {ran}: no room for it")
        return Sample(scheduler.done[-1][1] * 1e3, None)

    def state(self) -> DeviceState:
        return self._state()

    def _add(self, tokens: int, claimed: int) -> str:
        """A request of random tokens, with a salt of its own: the prefix cache knows none of it."""
        name = next(self._ids)
        prompt = self._rng.integers(FIRST_TOKEN, self._vocabulary, tokens).tolist()
        options = SamplingParams(
            temperature=0.0,
            max_tokens=self._engine.vllm_config.model_config.max_model_len - tokens,
            ignore_eos=True,
            detokenize=False,
            extra_args={CLAIM: max(0, claimed)},
        )
        self._engine.add_request(name, {"prompt_token_ids": prompt, "cache_salt": name}, options)
        return name

    def _drop(self, names: list[str]) -> None:
        self._engine.abort_request(names)
        while self._scheduler.has_requests():
            self._engine.step()

    def _fill(self, kv_tokens: int) -> None:
        """Computes prompts until so many tokens have KV, as far as requests may run beside each other."""
        config, names = self._engine.vllm_config, []
        longest = config.model_config.max_model_len - 2
        for _ in range(config.scheduler_config.max_num_seqs):
            if kv_tokens > 0:
                names.append(self._add(min(longest, kv_tokens), 0))
                kv_tokens -= longest
        scheduler = self._scheduler
        while scheduler.waiting or any(request.is_prefill_chunk for request in scheduler.running):
            self._engine.step()
        scheduler.note_filled()
        scheduler.begin()
        self._drop(names)
        scheduler.reset_prefix_cache()


def parts(chunk: Chunk, longest: int) -> list[Chunk]:
    """Chunks of the same sums, none of them longer than a request can be with its prefix.

    A plan's point may be longer than that, since it stands for all chunks of an iteration: several are what such sums
    are in this engine.
    """
    count = -(-(chunk.chunk_tokens + chunk.prefix_tokens) // longest)
    ends = [(i * chunk.chunk_tokens // count, i * chunk.prefix_tokens // count) for i in range(count + 1)]
    return [Chunk(c - a, u - b) for (a, b), (c, u) in itertools.pairwise(ends)]


def _same(ran: Batch, asked: Batch) -> bool:
    return sorted(ran.decode_contexts) == sorted(asked.decode_contexts) and sorted(
        (chunk.chunk_tokens, chunk.prefix_tokens) for chunk in ran.chunks
    ) == sorted((chunk.chunk_tokens, chunk.prefix_tokens) for chunk in asked.chunks)


def _uuid(kind: str | None) -> str | None:
    """None on a CPU, and where the GPUs are in processes of their own."""
    opened = kind == "cuda" and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return gpu_uuid(0) if opened else None
