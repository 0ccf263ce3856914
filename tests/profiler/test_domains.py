"""Default domains, and the arithmetic that decides what a GPU's memory allows."""

from dataclasses import replace

import pytest

from chunkfit.engine.config import MOST_CHUNKS, PRESETS
from chunkfit.engine.graphs import CAPTURE_SIZES
from chunkfit.engine.memory import MemoryPlan, largest_batch, page_slack
from chunkfit.files.errors import DeviceUnavailableError, UsageError
from chunkfit.profiler.devices import resolve_device
from chunkfit.profiler.domains import (
    SYNTHETIC_DOMAIN,
    capacity_note,
    cpu_domain,
    cuda_domain,
    default_domain,
    default_step_totals,
)
from chunkfit.profiler.plan import PlanOptions, draw_plan

GIB = 2**30


def test_a_large_gpu_takes_the_whole_box_of_a_small_model():
    config = PRESETS["llama-3.2-1b"]
    domain = cuda_domain(config, 139 * GIB)
    assert domain.max_context_tokens == 16_384
    weights = config.parameter_count * 2
    assert weights + domain.kv_tokens * config.kv_bytes_per_token(2) < 0.9 * 139 * GIB


def test_a_small_gpu_is_clipped_and_says_so():
    config = PRESETS["llama-3-8b"]
    domain = cuda_domain(config, 24 * GIB)
    assert domain.kv_tokens % 16_384 == 0
    assert 16_384 <= domain.kv_tokens < 100_000
    plan = draw_plan(domain, (129,), 0, PlanOptions(fit_points=60, calibrate_points=60, test_points=60))
    assert plan.clipped_fraction > 0.02
    note = capacity_note(domain, plan.clipped_fraction)
    assert note is not None
    assert f"{domain.kv_tokens:,}" in note
    assert capacity_note(SYNTHETIC_DOMAIN.model_copy(update={"kv_tokens": 10**7}), 0.0) is None


def test_a_little_less_free_memory_gives_the_same_domain():
    config = PRESETS["llama-3-8b"]
    assert cuda_domain(config, 40 * GIB) == cuda_domain(config, 40 * GIB - 50_000_000)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("gib", [24, 40, 80, 141])
def test_the_domain_fits_into_the_pool_that_an_engine_takes(name, gib):
    config = PRESETS[name]
    plan = MemoryPlan(config, "cuda", 2, gib * GIB)
    pool = plan.kv_tokens()
    domain = cuda_domain(config, gib * GIB)
    slack = page_slack(domain.max_decodes + MOST_CHUNKS)
    assert domain.kv_tokens + slack <= pool  # what the profiler asks of the engine
    largest = largest_batch(config)
    assert domain.kv_tokens == largest.kv_tokens or pool - slack - domain.kv_tokens < 16_384


def test_a_model_of_short_contexts_needs_little():
    short = replace(PRESETS["tiny"], context_length=20)
    domain = cuda_domain(short, 24 * GIB)
    assert domain.kv_tokens == 256 * 20 + 20 + 20
    assert MemoryPlan(short, "cuda", 2, 24 * GIB).kv_tokens() >= domain.kv_tokens + page_slack(256 + MOST_CHUNKS)


def test_a_model_that_does_not_fit_is_refused_with_the_arithmetic():
    with pytest.raises(DeviceUnavailableError, match=r"weights.*room for 0 KV tokens"):
        cuda_domain(PRESETS["llama-3-8b"], 12 * GIB)


def test_one_block_is_the_least():
    config = PRESETS["llama-3-8b"]
    plan = MemoryPlan(config, "cuda", 2, 0)
    tokens = 16_384 + page_slack(256 + MOST_CHUNKS)
    needed = plan.weights + plan.activations + plan.graphs + plan.pool(tokens)
    free = -(-10 * needed // 9) + 16 * plan.kv_token  # a tenth is the reserve, and pages are whole
    assert cuda_domain(config, free).kv_tokens == 16_384
    with pytest.raises(DeviceUnavailableError, match=r"expected at least 20,284"):
        cuda_domain(config, free - 64 * plan.kv_token)


def test_one_past_each_captured_size_is_a_step():
    steps = default_step_totals("cuda")
    assert {size + 1 for size in CAPTURE_SIZES} < set(steps)
    assert list(steps) == sorted(set(steps))
    assert default_step_totals("cpu") == ()


def test_cpu_and_unknown_devices():
    assert default_domain("cpu", "tiny") == cpu_domain(PRESETS["tiny"])
    assert default_domain("synthetic") == SYNTHETIC_DOMAIN
    with pytest.raises(UsageError, match="expected auto, cuda, cpu, synthetic"):
        resolve_device("tpu")
    assert resolve_device("auto") in ("cuda", "cpu")
