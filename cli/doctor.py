"""`chunkfit doctor`: what this machine can measure, before anything is measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .output import JsonFlag, Result, emit, escape, grid

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..engine.facts import MachineFacts

NEEDED = {
    "profile": ("torch", "pyarrow", "scipy", "pynvml"),
    "fit": ("scipy", "statsmodels", "lightgbm", "pyarrow"),
    "sim": ("numba",),
    "plot": ("matplotlib", "jinja2"),
    "ray": ("ray",),
}


@dataclass(frozen=True)
class Diagnosis(Result):
    """What this machine has. missing: modules by extra. attention: why a backend cannot run here, None where it can.

    machine: None without torch, and attention is empty then.
    """

    chunkfit: str
    missing: dict[str, list[str]]
    machine: MachineFacts | None
    attention: dict[str, str | None]

    def data(self) -> dict[str, Any]:
        data: dict[str, Any] = {"chunkfit": self.chunkfit, "missing": self.missing}
        if self.machine is None:
            return data
        default = {"default_device": _default_device(self.machine), "attention": self.attention}
        return data | asdict(self.machine) | default

    def shown(self) -> Iterator[RenderableType]:
        lines = [("chunkfit", self.chunkfit)]
        for name, missing in self.missing.items():
            state = "[green]installed[/]"
            if missing:
                state = f"[yellow]lacks {', '.join(missing)}[/]: pip install " + escape(f"'chunkfit[{name}]'")
            lines.append((f"extra {name}", state))
        if self.machine is not None:
            lines += _machine_lines(self.machine)
        for name, reason in self.attention.items():
            state = "[green]usable[/]" if reason is None else f"[yellow]not usable[/]: {escape(reason)}"
            lines.append((f"attention {name}", state))
        yield grid(lines)


def doctor(as_json: JsonFlag = False) -> None:
    """Devices, memory, versions, which optional parts are installed and which attention backends are usable.

    Example: chunkfit doctor
    """
    from importlib.metadata import version

    extras = {name: [m for m in modules if find_spec(m) is None] for name, modules in NEEDED.items()}
    machine, backends = None, {}
    if "torch" not in extras["profile"]:
        from ..engine.facts import machine_facts

        machine = machine_facts()
        backends = attention(_default_device(machine))
    emit(Diagnosis(version("chunkfit"), extras, machine, backends), as_json)


def _default_device(machine: MachineFacts) -> str:
    return "cpu" if machine.cuda_problem else "cuda"


def _machine_lines(facts: MachineFacts) -> list[tuple[str, str]]:
    lines = [
        ("torch", f"{facts.torch} (CUDA {facts.cuda or 'none'}, driver {facts.driver or 'unknown'})"),
        ("cpu", escape(f"{facts.cpu_name}, {facts.cpu_threads} threads")),
        ("memory", f"{gib(facts.free_bytes)} free of {gib(facts.memory_bytes)}"),
    ]
    for gpu in facts.gpus:
        memory = f"{gib(gpu.free_bytes)} free of {gib(gpu.memory_bytes)}"
        lines.append((f"cuda:{gpu.index}", escape(f"{gpu.name}, {gpu.sm_count} SMs, {memory}")))
    if facts.cuda_problem:
        lines.append(("cuda", f"[yellow]not usable[/]: {escape(facts.cuda_problem)}"))
    return [*lines, ("default device", _default_device(facts))]


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
