"""Processes of a sweep that hold a vLLM engine: a session, or the question what the engine can run.

python -m chunkfit.integrations.vllm.session REQUEST     one session, as chunkfit.profiler.session
python -m chunkfit.integrations.vllm.session --facts MODEL [ENGINE ARGUMENT ...]
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence

from ...files.errors import ChunkfitError, message_of
from ...profiler.devices.base import Device
from ...profiler.messages import SessionRequest
from ...profiler.session import main as run_session


def open_device(request: SessionRequest) -> Device:
    """The engine of the request's arguments, in this process."""
    from .device import VllmDevice, open_engine

    engine = open_engine(request.model, request.engine_arguments)
    seed = sum(request.sessions[0].encode()) + request.plan.seed
    return VllmDevice(engine, request.plan.domain, seed)


def tell_facts(model: str, arguments: Sequence[str]) -> int:
    """Writes {"domain", "fingerprint"} of such an engine to stdout, or {"error", "message"}."""
    out = os.dup(1)
    os.dup2(2, 1)  # vLLM logs to stdout

    def tell(answer: Mapping[str, object]) -> None:
        os.write(out, json.dumps(answer).encode() + b"\n")

    try:
        from .device import open_engine
        from .facts import facts_of

        engine = open_engine(model, arguments)  # kept: its end forgets the number of KV blocks
        tell(facts_of(engine.vllm_config))
    except ChunkfitError as error:
        tell(message_of(error))
        return error.exit_code
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "--facts":
        sys.exit(tell_facts(sys.argv[2], sys.argv[3:]))
    sys.exit(run_session(sys.argv[1:], open_device))
