from pathlib import Path

import pytest

from chunkfit import CostTable


@pytest.fixture(scope="session")
def golden() -> CostTable:
    """A table fitted on the known truth reference-v1."""
    return CostTable.load(Path(__file__).parent / "golden" / "table-v1.json")
