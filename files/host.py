"""The host: processor, memory, installed packages and the commit of the checkout."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil


def cpu_name() -> str:
    """The processor's name as the kernel gives it; psutil has none."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


def memory_bytes() -> tuple[int, int]:
    """(total, available) bytes of the host, or of the container where its limit is lower.

    Available memory includes the page cache that the kernel gives back when asked.
    """
    memory = psutil.virtual_memory()
    # psutil knows no limit of a control group.
    limit, used = _number("/sys/fs/cgroup/memory.max"), _number("/sys/fs/cgroup/memory.current")
    if limit is not None and used is not None and limit < memory.total:
        return limit, min(memory.available, max(0, limit - used))
    return memory.total, memory.available


def resident_bytes() -> int:
    """Resident set size of this process."""
    return int(psutil.Process().memory_info().rss)


def installed_version(package: str) -> str | None:
    """None where the package is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def checkout_commit() -> str | None:
    """Commit of the checkout that holds this file; None for an installed package and without git."""
    root = Path(__file__).parents[1]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text(encoding="ascii"))
    except (OSError, ValueError):  # no such limit, or "max"
        return None
