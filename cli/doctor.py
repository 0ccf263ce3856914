"""`chunkfit doctor`: what this machine can measure, before anything is measured."""

from __future__ import annotations

from dataclasses import asdict
from importlib.util import find_spec

from .output import JsonFlag, emit_data

NEEDED = {
    "profile": ("torch", "pyarrow", "scipy", "pynvml"),
    "fit": ("scipy", "statsmodels", "lightgbm", "pyarrow"),
    "sim": ("numba",),
    "plot": ("matplotlib",),
    "ray": ("ray",),
}


def doctor(as_json: JsonFlag = False) -> None:
    """Devices, memory, versions, which optional parts are installed and which attention backends are usable.

    Example: chunkfit doctor
    """
    from importlib.metadata import version

    from .exit_codes import escape
    from .output import grid

    extras = {name: [m for m in modules if find_spec(m) is None] for name, modules in NEEDED.items()}
    data: dict[str, object] = {"chunkfit": version("chunkfit"), "missing": extras}
    lines = [("chunkfit", version("chunkfit"))]
    for name, missing in extras.items():
        state = "[green]installed[/]" if not missing else f"[yellow]lacks {', '.join(missing)}[/]: pip install "
        lines.append((f"extra {name}", state if not missing else state + escape(f"'chunkfit[{name}]'")))
    if "torch" not in extras["profile"]:
        from ..engine.facts import machine_facts

        facts = machine_facts()
        data |= asdict(facts) | {"default_device": "cpu" if facts.cuda_problem else "cuda"}
        lines += [
            ("torch", f"{facts.torch} (CUDA {facts.cuda or 'none'}, driver {facts.driver or 'unknown'})"),
            ("cpu", escape(f"{facts.cpu_name}, {facts.cpu_threads} threads")),
            ("memory", f"{gib(facts.free_bytes)} free of {gib(facts.memory_bytes)}"),
        ]
        for gpu in facts.gpus:
            memory = f"{gib(gpu.free_bytes)} free of {gib(gpu.memory_bytes)}"
            lines.append((f"cuda:{gpu.index}", escape(f"{gpu.name}, {gpu.sm_count} SMs, {memory}")))
        if facts.cuda_problem:
            lines.append(("cuda", f"[yellow]not usable[/]: {escape(facts.cuda_problem)}"))
        lines.append(("default device", str(data["default_device"])))
        data["attention"] = reasons = attention(str(data["default_device"]))
        for name, reason in reasons.items():
            state = "[green]usable[/]" if reason is None else f"[yellow]not usable[/]: {escape(reason)}"
            lines.append((f"attention {name}", state))
    emit_data(data, as_json, grid(lines))


def attention(device: str) -> dict[str, str | None]:
    """Why each attention backend cannot run an 8B model's shape on the default device, None where it can."""
    from ..engine import PRESETS
    from ..engine.attention import usable
    from ..engine.engine import DEFAULT_DTYPES
    from ..engine.facts import require_device

    target = require_device(device)
    return usable(PRESETS["llama-3-8b"], target, DEFAULT_DTYPES[target.type])


def gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
