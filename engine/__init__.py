"""The reference engine that is measured: a decoder-only transformer with a paged KV cache.

Importing this package imports no torch; most names load their module when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..files.lazy import lazy_names
from .config import PRESETS, ModelConfig
from .hf_config import from_hf_config, resolve_model

if TYPE_CHECKING:
    from .engine import Engine
    from .facts import MachineFacts, fingerprint, machine_facts
    from .host_step import SequenceWork
    from .kv_cache import PageAllocator

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

__getattr__ = lazy_names(
    __name__,
    {
        "Engine": ".engine",
        "MachineFacts": ".facts",
        "PageAllocator": ".kv_cache",
        "SequenceWork": ".host_step",
        "fingerprint": ".facts",
        "machine_facts": ".facts",
    },
)
