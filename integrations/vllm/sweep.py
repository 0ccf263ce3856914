"""A sweep of a vLLM engine as the profiler runs any: what the engine can run, the plan, the request."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence

from ...files.errors import DeviceUnavailableError, MissingExtraError, error_of
from ...files.strict import Frozen
from ...tables.domain import Domain
from ...tables.fingerprint import Fingerprint

SESSION_MODULE = "chunkfit.integrations.vllm.session"


class EngineFacts(Frozen):
    """What one start of the engine tells."""

    domain: Domain
    fingerprint: Fingerprint

    @property
    def step_totals(self) -> tuple[int, ...]:
        """First n + c past each captured size."""
        sizes = self.fingerprint.capture_sizes or ()
        return tuple(size + 1 for size in sizes if size < self.domain.max_batch_tokens)


def engine_facts(model: str, arguments: Sequence[str]) -> EngineFacts:
    """Starts the engine once, in its own process. Raises what it met, MissingExtraError without vLLM."""
    if importlib.util.find_spec("vllm") is None:
        raise MissingExtraError(
            "--engine vllm needs vLLM in this environment, which is not installed: install chunkfit into the "
            "environment that serves (pip install 'chunkfit[profile,fit]')"
        )
    command = [sys.executable, "-P", "-m", SESSION_MODULE, "--facts", model, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        tail = " | ".join(done.stderr.strip().splitlines()[-3:]) or "it said nothing"
        raise DeviceUnavailableError(
            f"vLLM with model {model} did not start (exit code {done.returncode}: {tail}); expected an engine that "
            "serves with these arguments: try them with `vllm serve`"
        ) from None
    if "error" in answer:
        raise error_of(answer)
    return EngineFacts.model_validate_json(done.stdout)
