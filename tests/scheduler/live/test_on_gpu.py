"""The same loop on a GPU: everything ends, pages come back, the clock and the energy counter move."""

import numpy as np
import pytest
import torch
from support.serving import check_run, workload

from chunkfit.engine import Engine, resolve_model
from chunkfit.profiler.devices.nvml import energy_meter
from chunkfit.profiler.devices.torch_device import uuid_of
from chunkfit.scheduler.cost import Formula
from chunkfit.scheduler.live.open import EngineExecutor
from chunkfit.scheduler.live.serve import LiveCosts, serve
from chunkfit.scheduler.policies import policy
from chunkfit.scheduler.serving_state import Limits


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device that torch can use")
@pytest.mark.parametrize("name", ["sloweave", "fixed-64"])
def test_serving_on_the_gpu(name):
    engine = Engine(resolve_model("tiny"), device="cuda", kv_tokens=16_384)
    executor = EngineExecutor(engine, energy_meter(uuid_of(engine.device)))
    rng = np.random.default_rng(0)
    requests = workload(
        40,
        arrival_ms=np.sort(rng.uniform(0, 500, 40)),
        prompt_tokens=rng.integers(1, 600, 40),
        output_tokens=rng.integers(1, 60, 40),
    )
    cost = Formula(overhead=2.0, batch_token=0.005, decode=0.01).cost()
    limits = Limits(16, 1000, 16, 512, 528, 2000, 2000)
    live = serve(requests, policy(name), LiveCosts(cost, cost), executor, limits)
    check_run(requests, limits, live.run)
    assert live.pages_lost == 0
    assert (live.run.log["engine_ms"] > 0).all()
    assert live.joules is None or live.joules >= 0
