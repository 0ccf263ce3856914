"""Files of every format version stay readable, with the answers they gave when they were written."""

import json
from pathlib import Path

import pytest
from support.chunk_of import chunk_of

from chunkfit import Batch, CostTable
from chunkfit.tables.export import COLUMNS, csv_text

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("version", [1])
def test_golden_answers(version):
    table = CostTable.load(GOLDEN / f"table-v{version}.json")
    answers = json.loads((GOLDEN / f"answers-v{version}.json").read_text())
    for *point, expected, bound in answers["times"]:
        assert (table.expected_ms(Batch.of(*point)), table.bound_ms(Batch.of(*point))) == (expected, bound)
    for *question, chunk in answers["chunks"]:
        assert chunk_of(table, *question) == chunk


def test_csv_holds_every_node_of_the_domain():
    table = CostTable.load(GOLDEN / "table-v1.json")
    header, *lines = csv_text(table).splitlines()
    assert tuple(header.split(",")) == COLUMNS
    rows = [line.split(",") for line in lines]
    assert {row[0] for row in rows} == {"decode", "prefill", "mixed"}
    for scene, n, k, c, u, expected, bound, measured in rows[:: len(rows) // 50]:
        batch = Batch.of(int(n), int(k), int(c), int(u))
        assert batch.scene == scene
        assert float(expected) == table.expected_ms(batch)
        assert float(bound) == table.bound_ms(batch)
        assert measured in "01"
