"""An append-only file of JSON lines that one process writes at a time; every line is on the disk before the next.

The lock is `flock` on the open file, not a file beside it (filelock): it holds for whatever path leads to the file,
the kernel releases it when the process is killed, and nothing stays behind.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import ChunkfitError, StorageError


class LockedLines:
    """An open, locked file. Made by `open_locked`. advice: what a message says to do when it cannot be written."""

    def __init__(self, path: Path, descriptor: int, advice: str) -> None:
        self.path = path
        self._descriptor, self._advice = descriptor, advice

    def keep(self, size: int) -> None:
        """Drop everything after `size` bytes: a line that a kill cut off."""
        os.ftruncate(self._descriptor, size)

    def append(self, line: str) -> None:
        """On the disk when this returns. Raises StorageError."""
        data = line.encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
            os.fsync(self._descriptor)
        except OSError as error:
            raise _cannot_write(self.path, error, self._advice) from error


@contextmanager
def open_locked(path: Path, advice: str, busy: Callable[[], str], *, patience_s: float = 0.0) -> Iterator[LockedLines]:
    """The file at `path`, made where there is none, locked until the end of the block.

    busy: the message for a file that another process still writes after `patience_s` seconds. Raises ChunkfitError
    with it, and StorageError with `advice` where the file cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    except OSError as error:
        raise _cannot_write(path, error, advice) from error
    try:
        until = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise ChunkfitError(f"{path}: {busy()}") from None
                time.sleep(0.05)
            except OSError as error:
                raise _cannot_write(path, error, advice) from error
        yield LockedLines(path, descriptor, advice)
    finally:
        os.close(descriptor)  # releases the lock


def _cannot_write(path: Path, error: OSError, advice: str) -> StorageError:
    return StorageError(f"{path}: cannot be written ({error.strerror or error}); {advice}")
