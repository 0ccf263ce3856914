"""How large the last-level cache is: what a buffer has to be larger than to be read from memory."""

from __future__ import annotations

from pathlib import Path

import torch

# Where neither torch nor the kernel says: larger than most.
UNKNOWN_BYTES = 64 << 20
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def cache_bytes(device: torch.device) -> int:
    """L2 of a GPU, the highest level a core of a CPU sees."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).L2_cache_size)
    return max(_host_caches().values(), default=UNKNOWN_BYTES)


def _host_caches(folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> dict[str, int]:
    found = {}
    for index in folder.glob("index*"):
        try:
            size = (index / "size").read_text().strip()
            found[index.name] = int(size[:-1]) * UNITS[size[-1]]
        except (OSError, ValueError, KeyError, IndexError):
            continue  # a cache that is not described is not counted
    return found
