"""A table file to and from its model: strict reading, canonical checksum, exact writing."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from importlib import metadata
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from ..files.errors import TableFormatError
from ..files.strict import findings, json_path
from ..files.writing import write_atomically
from . import schema_v1
from .schema_v1 import TableV1

MAX_BYTES = 64 << 20
READERS: dict[int, type[TableV1]] = {1: TableV1}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a table. `kind` is checksum, structure or evidence."""

    kind: str
    where: str
    message: str

    def __str__(self) -> str:
        return f"[{self.kind}] {self.where}: {self.message}"


def read_text(path: str | PathLike[str]) -> str:
    """The file as text. Raises TableFormatError for a missing, oversized or non-UTF-8 file."""
    source = Path(path)
    try:
        size = source.stat().st_size
        if size > MAX_BYTES:
            raise TableFormatError(
                f"{source}: {size:,} bytes; expected at most {MAX_BYTES:,}: this is not a cost table "
                "written by chunkfit; export it again with fewer knots"
            )
        data = source.read_bytes()
    except OSError as error:
        raise TableFormatError(
            f"{source}: cannot be read ({error.strerror or error}); expected a cost table (JSON): check the path"
        ) from error
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TableFormatError(
            f"{source}: byte {error.start:,} is not UTF-8; expected a JSON text: copy the file again in binary mode"
        ) from error


def parse(text: str, where: str) -> dict[str, Any]:
    """JSON text to a plain object. Raises TableFormatError with byte offset, line and last complete path."""

    def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        if len(set(keys)) != len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise TableFormatError(
                f"{where}: key {twice!r} appears twice in one object; expected once: restore the file"
            )
        return dict(pairs)

    def no_constant(name: str) -> float:
        raise TableFormatError(f"{where}: holds {name}; expected finite numbers only: fit the table again")

    try:
        content = json.loads(text, object_pairs_hook=no_duplicates, parse_constant=no_constant)
    except json.JSONDecodeError as error:
        # A cut inside a string is reported where the string starts; the damage is at the end of the text.
        stop = len(text) if error.msg.startswith("Unterminated") else error.pos
        offset = len(text[:stop].encode())
        cut = " (the file ends here: it was cut)" if not text[stop:].strip() else ""
        raise TableFormatError(
            f"{where}: not complete JSON at byte offset {offset:,}, line {text.count(chr(10), 0, stop) + 1}{cut}: "
            f"{error.msg}; last complete path: {last_complete_path(text[:stop])}; "
            "copy the file again or export it again"
        ) from error
    except RecursionError as error:
        raise TableFormatError(f"{where}: nested too deeply for a cost table; export it again") from error
    if not isinstance(content, dict):
        raise TableFormatError(
            f"{where}: $ is a {type(content).__name__}; expected an object: this is not a cost table"
        )
    return content


def last_complete_path(text: str) -> str:
    """JSON path of the last value that is complete in a text that was cut, or "none"."""
    try:
        value = from_json(
            re.sub(r"[-+.0-9eE]+$", "", text), allow_partial=True
        )  # a number at the cut may be half a number
    except ValueError:
        return "none"
    path: list[str | int] = []
    while isinstance(value, dict | list) and value:
        items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
        just_opened = items[-1][1] in ({}, [])
        if just_opened and len(items) == 1:
            break
        key, value = items[-2] if just_opened else items[-1]
        path.append(key)
        if just_opened:
            break
    return json_path(path) if path else "none"


def checksum(content: dict[str, Any]) -> str:
    """sha256 of the canonical JSON (sorted keys, no spaces) of everything but `content_sha256` itself."""
    rest = {key: value for key, value in content.items() if key != "content_sha256"}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def checksum_finding(content: dict[str, Any]) -> Finding | None:
    """None when the stored checksum is that of the content."""
    stored, computed = content.get("content_sha256"), checksum(content)
    if stored == computed:
        return None
    return Finding(
        "checksum",
        "$.content_sha256",
        f"stored {str(stored)[:12]}..., computed {computed[:12]}...: the file was changed after it was written; "
        "restore it or export it again",
    )


def read(path: str | PathLike[str]) -> tuple[TableV1, Finding | None]:
    """The table in a file, and what is wrong with its checksum. Raises TableFormatError."""
    text = read_text(path)
    content = parse(text, str(path))
    return model_of(text, content, str(path)), checksum_finding(content)


def model_of(text: str, content: dict[str, Any], where: str) -> TableV1:
    """Check a text, parsed to `content`, against its version's model. Raises TableFormatError naming the JSON paths."""
    version = content.get("schema_version")
    if content.get("format") != schema_v1.FORMAT:
        raise TableFormatError(
            f"{where}: $.format is {content.get('format')!r}; expected {schema_v1.FORMAT!r}: this is not a cost table"
        )
    if not isinstance(version, int) or isinstance(version, bool) or version not in READERS:
        known = ", ".join(map(str, READERS))
        raise TableFormatError(
            f"{where}: $.schema_version is {version!r}; this chunkfit reads {known}: install the release that "
            "wrote the file, or fit the table again with this one"
        )
    try:
        return READERS[version].model_validate_json(text)
    except ValidationError as error:
        raise TableFormatError(f"{where}: {findings(error, most=8)}: export the table again") from error


def new_table(**fields: Any) -> TableV1:
    """A document of the current version, sealed, by this release. fields: those of `TableV1` that are left."""
    made = TableV1(
        format=schema_v1.FORMAT,
        schema_version=schema_v1.SCHEMA_VERSION,
        content_sha256="0" * 64,
        **({"created_by": f"chunkfit {metadata.version('chunkfit')}"} | fields),
    )
    return sealed(made)


def sealed(table: TableV1) -> TableV1:
    """The same table with the checksum of its content."""
    content = table.model_dump(mode="json")
    return table.model_copy(update={"content_sha256": checksum(content)})


def dumps(table: TableV1) -> str:
    """The file's text: one key a line, each list on one line. Numbers round-trip exactly."""
    return _lines(table.model_dump(mode="json"), 0) + "\n"


def write(table: TableV1, path: str | PathLike[str]) -> None:
    """Raises StorageError; an existing file survives a failure."""
    write_atomically(path, dumps(table).encode())


def _lines(value: Any, depth: int) -> str:
    if not isinstance(value, dict) or not value:
        return json.dumps(value, allow_nan=False)
    inner = ",\n".join(
        f"{' ' * (depth + 1)}{json.dumps(key)}: {_lines(item, depth + 1)}" for key, item in value.items()
    )
    return "{\n" + inner + "\n" + " " * depth + "}"
