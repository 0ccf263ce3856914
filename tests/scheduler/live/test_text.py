"""Scheduling changes time, never text: the engine in float64 gives every request the same tokens under every policy."""

import numpy as np
import pytest
import torch
from support.serving import workload

from chunkfit.engine import Engine, ModelConfig
from chunkfit.scheduler.cost import Formula
from chunkfit.scheduler.dtypes import Status
from chunkfit.scheduler.live.open import EngineExecutor
from chunkfit.scheduler.live.serve import LiveCosts, serve
from chunkfit.scheduler.policies import policy
from chunkfit.scheduler.serving_state import Limits

SMALL = ModelConfig(
    name="small",
    vocab_size=97,
    hidden_size=16,
    layers=2,
    heads=2,
    kv_heads=1,
    head_dim=8,
    intermediate_size=24,
    rope_theta=10_000.0,
    rms_norm_eps=1e-5,
    context_length=256,
    tie_embeddings=True,
)
POLICIES = ("full", "fixed-8", "token-budget-40", "sarathi-edf-24", "sloweave", "slidingserve-64", "qoserve-256")


@pytest.fixture(scope="module")
def executor():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    engine = Engine(SMALL, device="cpu", dtype=torch.float64, kv_tokens=16 * 30, seed=1)
    yield EngineExecutor(engine, lambda: None)
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def requests():
    rng = np.random.default_rng(0)
    return workload(
        24,
        arrival_ms=np.sort(rng.uniform(0, 60, 24)),
        prompt_tokens=rng.integers(1, 120, 24),
        output_tokens=rng.integers(1, 24, 24),
    )


def texts_under(name, requests, executor, pages):
    cost = Formula(overhead=0.5, batch_token=0.01, decode=0.02).cost()
    limits = Limits(8, pages, 16, 64, 72, 400, 256)
    live = serve(requests, policy(name), LiveCosts(cost, cost), executor, limits, seed=5)
    assert (live.run.results["status"] == Status.FINISHED).all()
    assert (live.pages_lost, executor.allocator.free_pages) == (0, 30)
    return live.texts, live.run


def alone(requests, executor):
    """Each request by itself, its prompt whole, from the engine."""
    from chunkfit.engine import SequenceWork
    from chunkfit.scheduler.live.serve import prompt_tokens

    prompts, texts = prompt_tokens(requests, SMALL.vocab_size, 5), {}
    for row, request in enumerate(requests):
        known = prompts(row).tolist()
        pages = executor.allocator.allocate(12)
        text = executor.iterate([], [SequenceWork(known, 0, pages)])
        while len(text) < request["output_tokens"]:
            text += executor.iterate([SequenceWork(text[-1:], len(known) + len(text) - 1, pages)], [])
        executor.allocator.free(pages)
        texts[row] = text
    return texts


def test_the_text_is_the_same_under_every_policy_and_alone(requests, executor):
    expected = alone(requests, executor)
    assert len({tuple(text) for text in expected.values()}) > 12, "texts that are all alike would prove nothing"
    for name in POLICIES:
        assert texts_under(name, requests, executor, 30)[0] == expected, name


def test_the_text_survives_preemption(requests, executor):
    texts, run = texts_under("full", requests, executor, 11)
    assert run.results["preemptions"].sum() > 0
    assert texts == alone(requests, executor)
