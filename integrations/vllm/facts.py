"""On what a vLLM engine's iterations are measured: its fingerprint and the batches it can run."""

from __future__ import annotations

import platform
from typing import Any

import torch
import vllm
from vllm.platforms import current_platform

from ...files.host import cpu_name
from ...tables.domain import Domain
from ...tables.fingerprint import Fingerprint

# Sizes of a model that decide the work, as its config names them.
SIZES = (
    "hidden_size",
    "intermediate_size",
    "moe_intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "sliding_window",
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "num_experts_per_tok",
    "q_lora_rank",
    "kv_lora_rank",
)


def facts_of(config: Any) -> dict[str, Any]:
    """`fingerprint` and `domain` of a running engine, as JSON; config: its VllmConfig, KV blocks counted."""
    return {
        "fingerprint": fingerprint_of(config).model_dump(mode="json"),
        "domain": domain_of(config).model_dump(mode="json"),
    }


def fingerprint_of(config: Any) -> Fingerprint:
    """Asked in the process that holds the engine core, once the model is loaded."""
    model, kind = config.model_config, current_platform.device_type
    cuda = kind == "cuda"
    # With several workers the GPUs are in their processes, and this one must not open a context on one of them.
    opened = cuda and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return Fingerprint(
        device_kind=kind,
        device_name=current_platform.get_device_name() if cuda else cpu_name(),
        device_memory_bytes=current_platform.get_device_total_memory(),
        sm_count=torch.cuda.get_device_properties(0).multi_processor_count if opened else None,
        cpu_threads=None if cuda else torch.get_num_threads(),
        model_name=str(model.model),
        model_shape=model_shape(config),
        dtype=str(model.dtype).removeprefix("torch."),
        tensor_parallel=config.parallel_config.tensor_parallel_size,
        engine="vllm",
        engine_version=vllm.__version__,
        attention_backend=attention_of(config),
        capture_sizes=capture_sizes(config),
        cuda=torch.version.cuda,
        torch=torch.__version__,
        os=platform.release(),
    )


def model_shape(config: Any) -> dict[str, int | float | bool | str]:
    """The model's sizes, and what of the engine's configuration changes the work of an iteration."""
    text = config.model_config.hf_text_config
    sizes: dict[str, int | float | bool | str] = {
        name: value for name in SIZES if isinstance(value := getattr(text, name, None), int)
    }
    speculative = config.speculative_config
    return sizes | {
        "architecture": str(config.model_config.architecture),
        "quantization": str(config.model_config.quantization),
        "kv_cache_dtype": str(config.cache_config.cache_dtype),
        "block_size": config.cache_config.block_size,
        "executor": str(config.parallel_config.distributed_executor_backend),
        "pipeline_parallel": config.parallel_config.pipeline_parallel_size,
        "async_scheduling": bool(config.scheduler_config.async_scheduling),
        "speculative": "none" if speculative is None else f"{speculative.method}:{config.num_speculative_tokens}",
        "max_loras": 0 if config.lora_config is None else config.lora_config.max_loras,
    }


def attention_of(config: Any) -> str:
    """The backends of the loaded layers, as vLLM names them; what was asked for where the layers are elsewhere.

    With several workers the layers are in their processes; `auto` then stands for vLLM's own choice.
    """
    layers = config.compilation_config.static_forward_context.values()
    names = {layer.attn_backend.get_name() for layer in layers if hasattr(layer, "attn_backend")}
    asked = config.attention_config.backend
    return ",".join(sorted(names)) or ("auto" if asked is None else asked.name)


def capture_sizes(config: Any) -> tuple[int, ...]:
    """Tokens that CUDA graphs are captured for; empty where none are."""
    if config.model_config.enforce_eager:
        return ()
    return tuple(sorted(config.compilation_config.cudagraph_capture_sizes or ()))


def domain_of(config: Any) -> Domain:
    """What this engine can run: nothing wider is measured.

    A request's last token is sampled and not computed. Each sequence may leave most of its last block empty. As many
    decodes as there are places have no room for a chunk beside them; such points of a plan are skipped.
    """
    places, longest = config.scheduler_config.max_num_seqs, config.model_config.max_model_len - 1
    budget = config.scheduler_config.max_num_batched_tokens
    decodes, block = min(places, budget), config.cache_config.block_size
    held = max(1, config.cache_config.num_gpu_blocks - places - 1) * block
    chunk = min(budget, longest)
    return Domain(
        max_decodes=decodes,
        max_context_tokens=longest,
        max_chunk_tokens=chunk,
        max_prefix_tokens=longest - 1,
        max_batch_tokens=budget,
        kv_tokens=min(held, decodes * longest + longest),
        context_length=longest,
    )
