"""The real vLLM schedulers without a model: iterations take what a cost says, of a clock that the test turns."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from vllm import EngineArgs, SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

from chunkfit.integrations.vllm.work import Work, work_of
from chunkfit.tables.cost_table import CostTable

BLOCK = 16
# Arguments of a real engine of the tiny model, small enough to be swept in minutes.
ENGINE = (
    *("--load-format", "dummy", "--skip-tokenizer-init", "--dtype", "float32", "--enforce-eager"),
    *("--distributed-executor-backend", "mp"),  # as `vllm serve` has it on a CPU
    *("--block-size", "128", "--max-num-seqs", "8", "--max-num-batched-tokens", "768", "--max-model-len", "1024"),
)
TINY = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 688,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 2048,
    "max_position_embeddings": 131_072,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def tiny_model(folder: Path) -> Path:
    """A folder that vLLM takes for a model, with random weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(TINY))
    return folder


def engine_config(model: Path, **changes):
    """A VllmConfig of the tiny model; changes: of EngineArgs."""
    usual = {
        "load_format": "dummy",
        "skip_tokenizer_init": True,
        "dtype": "float32",
        "enforce_eager": True,
        "max_num_seqs": 64,
        "max_num_batched_tokens": 8192,
        "max_model_len": 70_000,
    }
    config = EngineArgs(model=str(model), **(usual | changes)).create_engine_config()
    config.cache_config.block_size = BLOCK
    config.cache_config.num_gpu_blocks = 100_000
    return config


def scheduler_of(kind, config, blocks: int = 100_000):
    """A scheduler of that class over a pool of so many blocks."""
    config.cache_config.num_gpu_blocks = blocks
    group = KVCacheGroupSpec(["layer"], FullAttentionSpec(BLOCK, num_kv_heads=2, head_size=32, dtype=torch.float32))
    init_none_hash(sha256)
    return kind(
        vllm_config=config,
        kv_cache_config=KVCacheConfig(num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=[group]),
        structured_output_manager=StructuredOutputManager(config),
        block_size=BLOCK,
        log_stats=True,
    )


@dataclass
class Ran:
    """One iteration: what it computed and when, in ms. decoding: who got a token. allowed: prompt tokens decided."""

    work: Work
    decoding: frozenset[str]
    allowed: int
    began_ms: float
    ended_ms: float


@dataclass
class FakeEngine:
    """The engine core's loop: `depth` iterations are under way, each begins when the one before it is over.

    table: what iterations take, its bound times a factor from `factors` each.
    """

    scheduler: object
    table: CostTable
    depth: int = 2
    factors: Callable[[], float] = lambda: 1.0
    now_ms: float = 0.0
    ran: list[Ran] = field(default_factory=list)
    tokens_ms: dict[str, list[float]] = field(default_factory=dict)
    _queue: deque = field(default_factory=deque)
    _sampled: set[str] = field(default_factory=set)
    _end_ms: float = 0.0
    _accepted: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    def __post_init__(self) -> None:
        self.scheduler.clock = lambda: self.now_ms / 1e3
        self._hasher = get_request_block_hasher(BLOCK, sha256)

    def add(self, name, prompt_tokens: int, output_tokens: int, seed: int | None = None, priority=0, **extra) -> None:
        """A request that arrives now. seed: requests of one seed have one prompt."""
        rng = np.random.default_rng(abs(hash(name)) if seed is None else seed)
        options = SamplingParams(max_tokens=output_tokens, ignore_eos=True, temperature=0.0, extra_args=extra or None)
        options.update_from_generation_config({}, 2)
        prompt = rng.integers(3, 2000, prompt_tokens).tolist()
        self.tokens_ms[name] = []
        self.scheduler.add_request(Request(name, prompt, options, None, priority=priority, block_hasher=self._hasher))

    def step(self) -> None:
        """As EngineCore.step_with_batch_queue, and with depth 1 as step."""
        if self.scheduler.has_requests():
            output = self.scheduler.schedule()
            requests = self.scheduler.requests
            work = work_of(output.num_scheduled_tokens, output.scheduled_spec_decode_tokens, requests)
            began = max(self.now_ms, self._end_ms)
            takes = 0.0 if work is None else self.factors() * self.table.bound_ms(work.batch())
            sampling = [name for name in output.num_scheduled_tokens if not requests[name].is_prefill_chunk]
            decoding = frozenset(name for name in sampling if name in self._sampled)
            allowed = self.scheduler.counters.chunk_tokens if hasattr(self.scheduler, "counters") else 0
            ran = None if work is None else Ran(work, decoding, allowed, began, began + takes)
            self._sampled.update(sampling)
            self._queue.append((output, sampling, ran, began + takes))
            self._end_ms = began + takes
            if len(self._queue) < self.depth and work is not None:
                return
        output, sampling, ran, ended = self._queue.popleft()
        self.now_ms = max(self.now_ms, ended)
        if ran is not None:
            self.ran.append(ran)
        drafts = output.scheduled_spec_decode_tokens
        sampled = {
            name: [5] * (1 + int(self._accepted.integers(0, len(drafts.get(name, ())) + 1))) for name in sampling
        }
        names = list(output.num_scheduled_tokens)
        made = ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: i for i, name in enumerate(names)},
            sampled_token_ids=[sampled.get(name, []) for name in names],
        )
        for client in self.scheduler.update_from_output(output, made).values():
            for one in client.outputs:
                if one.new_token_ids:
                    self.tokens_ms[one.request_id].append(self.now_ms)

    def idle_until(self, ms: float) -> None:
        self.now_ms = max(self.now_ms, ms)

    def gaps_ms(self, *names: str) -> np.ndarray:
        """Between a request's tokens, of all or of some."""
        return np.concatenate([np.diff(self.tokens_ms[name]) for name in names or self.tokens_ms])
