"""What a table file can say about itself: readable, in order, unchanged."""

from __future__ import annotations

from pathlib import Path

from ..files.errors import TableFormatError
from . import document
from .arrays import from_document
from .document import Finding
from .schema_v1 import TableV1
from .self_check import order_findings


def validate_file(path: str | Path) -> tuple[TableV1 | None, list[Finding]]:
    """The table, and what is wrong with the file itself: structure first, then the checksum.

    A file that cannot be read at all gives (None, [one finding]).
    """
    try:
        content = document.parse(document.read_text(path), str(path))
        table = document.model_of(content, str(path))
        arrays = from_document(table, str(path))
    except TableFormatError as error:
        return None, [Finding("structure", str(path), str(error))]
    findings = order_findings(arrays)
    stale = document.checksum_finding(content)
    return table, findings + ([stale] if stale else [])
