"""For all tests, and the processes that they start."""

import os
from pathlib import Path

import pytest

# Before NumPy is imported. Two workers on two cores with two BLAS threads each wait for each other: the tests of steps
# took 400 s beside other work instead of 37.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def golden():
    """A table fitted on the known truth reference-v1."""
    from chunkfit import CostTable

    return CostTable.load(Path(__file__).parent / "tables" / "golden" / "table-v1.json")
