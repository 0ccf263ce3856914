"""The formats by name."""

from __future__ import annotations

from ...files.errors import UsageError
from . import aiconfigurator, dynamo_trace, iterations, llmservingsim, rucnyz, table, vllm, vllm_ascend
from .samples import LogFormat, ReadOptions

FORMATS: dict[str, LogFormat] = {
    "table": table.FORMAT,
    "iterations": iterations.FORMAT,
    "vllm": vllm.FORMAT,
    "dynamo-trace": dynamo_trace.FORMAT,
    "aiconfigurator": aiconfigurator.FORMAT,
    "vllm-ascend": vllm_ascend.FORMAT,
    "llmservingsim": llmservingsim.FORMAT,
    "rucnyz": rucnyz.GRID,
    "rucnyz-live": rucnyz.LIVE,
}


def log_format(name: str, options: ReadOptions) -> LogFormat:
    """`-` and `_` are the same. Raises UsageError for an unknown name and for options that do not fit it."""
    found = FORMATS.get(name.replace("_", "-"))
    if found is None:
        known = "; ".join(f"{form}, {FORMATS[form].summary}" for form in FORMATS)
        raise UsageError(f"format {name!r} is unknown; expected one of: {known}")
    said = set(options.mapping)
    missing, odd = set(found.must_say) - said, said - {*found.must_say, *found.may_say}
    if missing or odd:
        also = f", may have {', '.join(found.may_say)}" if found.may_say else ""
        kind = "columns, numbers or products of them" if found.columns else "whole numbers that the file lacks"
        raise UsageError(
            f"--map: format {name} needs {', '.join(found.must_say) or 'nothing'}{also} ({kind}); found "
            f"{', '.join(sorted(said)) or 'nothing'}"
        )
    if options.unit is not None and not found.columns:
        raise UsageError(f"--unit {options.unit}: format {name} says its own unit; leave the option out")
    if options.where and not found.where:
        raise UsageError(f"--where: format {name} is of one thing; leave the option out")
    return found
