"""The JSON Schema that ships with the package, generated from the models.

`python -m chunkfit.tables.schema_file` writes it again; a test fails when it is stale.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

from ..files.writing import write_atomically
from .schema_v1 import SCHEMA_VERSION, TableV1


def schema_text() -> str:
    """JSON Schema of the current format version."""
    schema = TableV1.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = f"chunkfit cost table, version {SCHEMA_VERSION}"
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


def shipped_schema(version: int = SCHEMA_VERSION) -> str:
    """The schema text inside the installed package."""
    return resources.files(__package__).joinpath("schema", f"table-v{version}.json").read_text("utf-8")


if __name__ == "__main__":
    write_atomically(Path(__file__).parent / "schema" / f"table-v{SCHEMA_VERSION}.json", schema_text().encode())
