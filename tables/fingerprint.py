"""On what a profile was measured, and which differences matter."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import Field

from ..files.errors import FingerprintMismatchError
from ..files.strict import Frozen


class Severity(StrEnum):
    REFUSE = "refuse"
    WARN = "warn"
    NOTE = "note"


def _field(severity: Severity, description: str) -> Any:
    return Field(default=None, description=description, json_schema_extra={"severity": severity.value})


class Fingerprint(Frozen):
    """Facts about the device, model and engine. None means unknown and stays unknown.

    Each field has a severity, which says what a difference means: `refuse` (another table is needed), `warn` (check
    the coverage again), `note`.
    """

    device_kind: str | None = _field(Severity.REFUSE, "cuda, cpu or synthetic")
    device_name: str | None = _field(Severity.REFUSE, "as the driver or the kernel names it")
    device_memory_bytes: int | None = _field(Severity.NOTE, "total memory of the device")
    sm_count: int | None = _field(Severity.REFUSE, "streaming multiprocessors visible (MIG shows)")
    cpu_threads: int | None = _field(Severity.REFUSE, "threads torch computes with on cpu")
    model_name: str | None = _field(Severity.NOTE, "preset or config path")
    model_shape: dict[str, int | float | bool | str] | None = _field(Severity.REFUSE, "sizes that decide the work")
    dtype: str | None = _field(Severity.REFUSE, "of weights and KV cache")
    tensor_parallel: int | None = _field(Severity.REFUSE, "tensor parallel degree")
    engine: str | None = _field(Severity.REFUSE, "chunkfit-engine, vllm, ...")
    engine_version: str | None = _field(Severity.WARN, "version of that engine")
    attention_backend: str | None = _field(Severity.REFUSE, "torch, triton, or as the engine names it")
    capture_sizes: tuple[int, ...] | None = _field(Severity.REFUSE, "CUDA graph batch sizes")
    driver: str | None = _field(Severity.WARN, "GPU driver version")
    cuda: str | None = _field(Severity.WARN, "CUDA runtime version torch was built with")
    torch: str | None = _field(Severity.WARN, "torch version")
    triton: str | None = _field(Severity.WARN, "triton version")
    clock_limits: str | None = _field(Severity.WARN, "clock and power limits in force")
    os: str | None = _field(Severity.NOTE, "kernel release")

    @property
    def synthetic(self) -> bool:
        """True for the known-truth device: never to be mistaken for a measurement."""
        return self.device_kind == "synthetic"

    def title(self) -> str:
        """One line for people: what was measured."""
        device = self.device_name or "unknown device"
        mark = " [SYNTHETIC: a formula, not a measurement]" if self.synthetic else ""
        return (
            f"{device} / {self.model_name or 'unknown model'} / {self.dtype or 'unknown dtype'} / "
            f"{self.engine or 'unknown engine'}{mark}"
        )


def severity(field: str) -> Severity:
    """What a difference in `field` means."""
    extra = Fingerprint.model_fields[field].json_schema_extra
    assert isinstance(extra, dict)  # every field is made by _field
    return Severity(str(extra["severity"]))


def differences(left: Fingerprint, right: Fingerprint) -> dict[Severity, list[tuple[str, Any, Any]]]:
    """Fields that differ as (name, left, right), by severity.

    Unknown against known counts as a difference: an unknown is not a match.
    """
    found: dict[Severity, list[tuple[str, Any, Any]]] = {level: [] for level in Severity}
    for name in Fingerprint.model_fields:
        a, b = getattr(left, name), getattr(right, name)
        if a != b:
            found[severity(name)].append((name, a, b))
    return found


def require_same(left: Fingerprint, right: Fingerprint, where: str) -> None:
    """Raises FingerprintMismatchError when a refuse-field differs; `where` names the two things."""
    refused = differences(left, right)[Severity.REFUSE]
    if refused:
        listed = "; ".join(f"{name}: {a!r} against {b!r}" for name, a, b in refused)
        raise FingerprintMismatchError(
            f"{where}: measured on different things ({listed}); expected one device, model, dtype and "
            "engine: profile each of them by itself"
        )
