"""What needs vLLM is skipped where it is not installed: `make vllm` builds an environment that has it."""

import importlib.util
import os

import pytest

# No network, little memory, and one thread: on a shared machine two wait for each other.
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "OMP_NUM_THREADS": "1",
}
HAS_VLLM = importlib.util.find_spec("vllm") is not None


@pytest.fixture(scope="session")
def vllm():
    if not HAS_VLLM:
        pytest.skip("vllm is not installed here; `make vllm` runs these tests where it is")
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    from support import vllm_harness

    return vllm_harness
