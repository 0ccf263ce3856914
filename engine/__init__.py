"""The reference engine that is measured: a decoder-only transformer with a paged KV cache.

Importing this package imports no torch; the names below load their module when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .config import PRESETS, ModelConfig, from_hf_config, resolve_model

if TYPE_CHECKING:
    from .engine import Engine
    from .facts import MachineFacts, fingerprint, machine_facts
    from .host_step import SequenceWork
    from .kv_cache import PageAllocator

_LAZY = {
    "Engine": ".engine",
    "MachineFacts": ".facts",
    "PageAllocator": ".kv_cache",
    "SequenceWork": ".host_step",
    "fingerprint": ".facts",
    "machine_facts": ".facts",
}

__all__ = [
    "PRESETS",
    "Engine",
    "MachineFacts",
    "ModelConfig",
    "PageAllocator",
    "SequenceWork",
    "fingerprint",
    "from_hf_config",
    "machine_facts",
    "resolve_model",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name], __name__), name)
