"""Columns and metadata to Parquet bytes and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from ..files.errors import MissingExtraError, ProfileFormatError
from .columns import COLUMNS, Columns
from .meta import PROFILE_VERSION, ProfileMeta

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    raise MissingExtraError(
        "profile files need pyarrow, which is not installed: pip install 'chunkfit[profile]'"
    ) from error

METADATA_KEY = b"chunkfit"
_TYPES = {np.str_: pa.string(), np.int64: pa.int64(), np.float64: pa.float64(), np.bool_: pa.bool_()}


def to_bytes(meta: ProfileMeta, columns: Columns) -> bytes:
    """The file; the same content gives the same bytes with one pyarrow version."""
    arrays = {name: pa.array(columns[name].tolist(), _TYPES[kind]) for name, kind in COLUMNS.items()}
    table = pa.table(arrays).replace_schema_metadata({METADATA_KEY: meta.model_dump_json().encode()})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def from_bytes(data: bytes, where: str) -> tuple[ProfileMeta, Columns]:
    """Metadata and columns, the columns not yet checked. Raises ProfileFormatError."""
    try:
        table = pq.ParquetFile(pa.BufferReader(data)).read()
    except (pa.ArrowException, OSError) as error:
        raise ProfileFormatError(
            f"{where}: not a readable Parquet file ({str(error).splitlines()[0]}; {len(data):,} bytes found); "
            "expected a profile written by `chunkfit profile`: copy it or measure again"
        ) from error
    meta = _read_meta(table.schema.metadata or {}, where)
    columns: Columns = {}
    for name in table.column_names:
        column = table.column(name)
        if column.null_count:
            raise ProfileFormatError(f"{where}: column {name} has {column.null_count} empty values; expected none")
        values: NDArray[Any] = column.to_numpy()
        columns[name] = values.astype(np.str_) if values.dtype == np.object_ else values
    return meta, columns


def _read_meta(metadata: Mapping[bytes, bytes], where: str) -> ProfileMeta:
    text = metadata.get(METADATA_KEY)
    if text is None:
        raise ProfileFormatError(
            f"{where}: Parquet without chunkfit metadata; expected a profile written by `chunkfit profile`"
        )
    try:
        version = json.loads(text).get("profile_version")
        if version != PROFILE_VERSION:
            raise ProfileFormatError(
                f"{where}: profile_version is {version!r}; this chunkfit reads {PROFILE_VERSION}: use the "
                "chunkfit that wrote it or measure again"
            )
        return ProfileMeta.model_validate_json(text)
    except (ValidationError, ValueError, AttributeError) as error:
        raise ProfileFormatError(f"{where}: metadata: {_one_line(error)}; measure again") from error


def _one_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:5])
    return str(error)
