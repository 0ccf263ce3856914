"""The recorder's files: JSON lines, appended one write an iteration, rotated, never in the engine's way."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...files.errors import StorageError
from ...profiler.importers.vllm import HEADER, RECORD_VERSION

FILE_BYTES = 256 << 20
FILES = 8  # of this engine that are kept; older ones are removed


class RecordFile:
    """Each line is one write to the file, so an engine that is killed leaves whole lines.

    A file begins with a header line. A full disk ends the recording, said once, and never the engine.
    """

    def __init__(
        self, folder: Path, facts: dict[str, Any], warn: Callable[[str], None], file_bytes: int = FILE_BYTES
    ) -> None:
        """Raises StorageError when nothing can be written in `folder`, before the engine takes requests."""
        self._folder, self._warn, self._file_bytes = folder, warn, file_bytes
        self._header = json.dumps({HEADER: RECORD_VERSION, **facts}, separators=(",", ":")).encode() + b"\n"
        self._stem = f"iterations-{int(time.time())}-{os.getpid()}"
        self._number = self._written = 0
        self._descriptor: int | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._next_file()
        except OSError as error:
            raise StorageError(
                f"{folder}: cannot be written ({error.strerror or error}); expected a folder for the recorder's "
                "files: free space or choose another `record`"
            ) from error

    def write(self, line: bytes) -> None:
        """One line, its end included."""
        if self._descriptor is None:
            return
        try:
            if self._written + len(line) > self._file_bytes:
                self._next_file()
            if os.write(self._descriptor, line) < len(line):
                raise OSError("the disk is full")
            self._written += len(line)
        except OSError as error:
            self.close()
            self._warn(f"{self._folder}: recording has stopped ({error.strerror or error}); the engine goes on")

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _next_file(self) -> None:
        self.close()
        self._descriptor = os.open(self._path(self._number), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        os.write(self._descriptor, self._header)
        self._written = len(self._header)
        self._path(self._number - FILES).unlink(missing_ok=True)
        self._number += 1

    def _path(self, number: int) -> Path:
        return self._folder / f"{self._stem}-{number:06d}.jsonl"


def line_of(contexts: list[int], chunks: list[tuple[int, int]], seconds: float, time_s: float, graph: str) -> bytes:
    """An iteration as `profiler.importers.vllm` reads it; time_s: its end by the wall clock. graph: which kind of CUDA
    graph ran, as vLLM names it; empty where it does not say.
    """
    pairs = ",".join(f"[{c},{u}]" for c, u in chunks)
    return (
        f'{{"decode_contexts":[{",".join(map(str, contexts))}],"chunks":[{pairs}],"latency_ms":{seconds * 1e3:.4f},'
        f'"time_s":{time_s:.6f},"graph":"{graph}"}}\n'
    ).encode()
