"""What is measured when nobody says otherwise: domain, steps and warm-ups of each device."""

from __future__ import annotations

import subprocess
import sys

from ..engine.config import MOST_CHUNKS, ModelConfig
from ..engine.graphs import CAPTURE_SIZES
from ..engine.hf_config import resolve_model
from ..files.errors import DeviceUnavailableError, UsageError
from ..tables.domain import Domain

CUDA_DTYPE_BYTES = 2
# KV capacities are rounded down to this, so that a little less free memory gives the same domain.
KV_ROUNDING = 16_384

SYNTHETIC_DOMAIN = Domain(
    max_decodes=128,
    max_context_tokens=8192,
    max_chunk_tokens=2048,
    max_prefix_tokens=16_384,
    max_batch_tokens=2176,
    kv_tokens=262_144,
    context_length=32_768,
)
# First totals n + c past a step: the known truth's one, one past each captured size, and of 128-row matrix tiles the
# edges beyond.
STEP_TOTALS: dict[str, tuple[int, ...]] = {
    "synthetic": (129,),
    "cpu": (),
    "cuda": (*(size + 1 for size in CAPTURE_SIZES), 1025, 2049),
}


def default_step_totals(device: str) -> tuple[int, ...]:
    """Totals n + c at which a step is looked for. `device` is a key of DEVICES."""
    return STEP_TOTALS[device]


def default_warmup(device: str) -> tuple[int, float]:
    """(iterations, ms) before each point, both at least; a formula has nothing to warm."""
    return (0, 0.0) if device == "synthetic" else (2, 12.0)


def default_domain(device: str, model: str = "tiny") -> Domain:
    """The domain measured on `device` (a key of DEVICES) with `model`.

    Raises UsageError for an unknown device or model, DeviceUnavailableError when a GPU is not there or
    has no room for the model and a KV pool.
    """
    if device == "synthetic":
        return SYNTHETIC_DOMAIN
    if device == "cpu":
        return cpu_domain(resolve_model(model))
    if device == "cuda":
        return cuda_domain(resolve_model(model), cuda_free_bytes())
    raise UsageError(f"device {device!r} has no default domain; expected cpu, cuda or synthetic")


def cpu_domain(config: ModelConfig) -> Domain:
    """Small enough that a thousand points take a minute or two with the tiny model."""
    return Domain(
        max_decodes=32,
        max_context_tokens=min(1024, config.context_length),
        max_chunk_tokens=min(512, config.context_length),
        max_prefix_tokens=min(2048, config.context_length),
        max_batch_tokens=544,
        kv_tokens=24_576,
        context_length=config.context_length,
    )


def cuda_domain(config: ModelConfig, free_bytes: int) -> Domain:
    """What fits `free_bytes` of device memory in bfloat16, by the engine's own arithmetic (`MemoryPlan`).

    The KV pool is what an engine on that device would take, less the unused ends of last pages, and at most
    what the largest batch reads. Raises DeviceUnavailableError when not even one KV block of 16,384 tokens
    is left.
    """
    from ..engine.memory import MemoryPlan, largest_batch, page_slack  # torch: a GPU needs it anyway

    batch = largest_batch(config)
    slack = page_slack(batch.decodes + MOST_CHUNKS)
    room = MemoryPlan(config, "cuda", CUDA_DTYPE_BYTES, free_bytes).kv_tokens(at_least=KV_ROUNDING + slack) - slack
    kv_tokens = batch.kv_tokens if room >= batch.kv_tokens else room // KV_ROUNDING * KV_ROUNDING
    return Domain(
        max_decodes=batch.decodes,
        max_context_tokens=min(batch.context_tokens, kv_tokens),
        max_chunk_tokens=min(batch.chunk_tokens, kv_tokens),
        max_prefix_tokens=min(batch.prefix_tokens, kv_tokens),
        max_batch_tokens=batch.batch_tokens,
        kv_tokens=kv_tokens,
        context_length=config.context_length,
    )


def cuda_free_bytes() -> int:
    """Free memory of the current CUDA device, asked in another process.

    Asking creates a CUDA context, which would stay in the parent and take memory from the sessions.
    Raises DeviceUnavailableError with what torch says.
    """
    question = "import torch; print(torch.cuda.mem_get_info()[0])"
    answer = subprocess.run([sys.executable, "-c", question], capture_output=True, text=True, check=False)
    try:
        return int(answer.stdout.split()[-1])
    except (IndexError, ValueError):
        reason = (answer.stderr.strip().splitlines() or ["no answer"])[-1]
        raise DeviceUnavailableError(
            f"device cuda: free memory cannot be read ({reason}); expected a CUDA device that torch can use: "
            "run `chunkfit doctor`, or measure with --device cpu"
        ) from None


def capacity_note(domain: Domain, clipped_fraction: float) -> str | None:
    """What the KV capacity cuts off the axes' box, in words; None where it cuts nothing."""
    asked = domain.max_decodes * domain.max_context_tokens + domain.max_chunk_tokens + domain.max_prefix_tokens
    if asked <= domain.kv_tokens:
        return None
    return (
        f"KV capacity {domain.kv_tokens:,} tokens clips the domain: {domain.max_decodes} decodes reach a mean "
        f"context of {domain.kv_tokens // domain.max_decodes:,} of {domain.max_context_tokens:,} tokens; "
        f"{clipped_fraction:.1%} of the draws were refused and redrawn"
    )
