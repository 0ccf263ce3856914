"""`--additional-config '{"chunkfit": {...}}'`: what an operator says to our schedulers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, ValidationError

from ...files.errors import UsageError
from ...files.strict import Strict

SECTION = "chunkfit"
TPOT, TTFT = "tpot_ms", "ttft_ms"  # per request, in `vllm_xargs` or SamplingParams.extra_args
Target = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Options(Strict):
    """Every option has its reader: RecordingScheduler takes `record`, SLOWeaveScheduler all of them."""

    record: Annotated[str | None, Field(description="folder for the recorder's files; None: nothing is recorded")] = (
        None
    )
    table: Annotated[str | None, Field(description="cost table of this engine")] = None
    tpot_ms: Annotated[Target | None, Field(description="target between tokens of requests without their own")] = None
    ttft_ms: Annotated[Target | None, Field(description="target of the first token, likewise; None: none")] = None
    allow_refuted: Annotated[bool, Field(description="take a table whose verdict is 'do not use' all the same")] = False
    policy: Annotated[str, Field(description="as in `chunkfit.scheduler.policies`")] = "sloweave"


def options_of(additional_config: Any) -> Options:
    """The section `chunkfit` of vLLM's additional config. Raises UsageError naming the option."""
    said = additional_config.get(SECTION, {}) if isinstance(additional_config, Mapping) else {}
    try:
        return Options.model_validate(said)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, (SECTION, *first["loc"])))
        raise UsageError(
            f"--additional-config, {place}: {first['msg']}, found {str(first['input'])[:80]!r}; expected options among "
            f"{', '.join(Options.model_fields)}"
        ) from error


def request_target_ms(extra_args: Mapping[str, Any] | None, name: str, usual: float | None) -> float | None:
    """A request's own target in ms, else the usual one; one that is no number above 0 counts as not given.

    A client's mistake must not take the engine down, and the front end does not check `vllm_xargs`.
    """
    value = (extra_args or {}).get(name)
    if value is None:
        return usual
    try:
        number = float(value)
    except (TypeError, ValueError):
        return usual
    return number if 0 < number < 1e9 else usual
