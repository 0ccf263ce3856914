"""Files appear whole or not at all: written beside their place, flushed, then renamed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from os import PathLike
from pathlib import Path

from .errors import StorageError


def write_atomically(path: str | PathLike[str], data: bytes) -> None:
    """Replace `path` by `data`. Raises StorageError; an existing file survives a failure."""
    target = Path(path)
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    except OSError as error:
        raise cannot_write(target, error) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files private; a result is as readable as any file the user writes.
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(target)
    except OSError as error:
        raise cannot_write(target, error) from error
    finally:
        with contextlib.suppress(OSError):
            Path(name).unlink()


def make_folder(path: str | PathLike[str]) -> None:
    """`path` and what it lies in, where they are not there. Raises StorageError."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{path}: cannot be made ({error.strerror or error}); choose another output") from error


def cannot_write(path: Path, error: OSError) -> StorageError:
    """The message for a path that cannot be written."""
    return StorageError(
        f"{path}: cannot be written ({error.strerror or error}); nothing was changed there: "
        "free space or choose another path"
    )
