"""What needs vLLM is skipped where it is not installed: `make vllm` builds an environment that has it."""

import importlib.util

import pytest

HAS_VLLM = importlib.util.find_spec("vllm") is not None


@pytest.fixture(scope="session")
def vllm():
    if not HAS_VLLM:
        pytest.skip("vllm is not installed here; `make vllm` runs these tests where it is")
    from support import vllm_harness

    return vllm_harness
