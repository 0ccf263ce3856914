"""The tests in tests/engine/kernels under Triton's interpreter, in a process of their own: the interpreter has to be
chosen before triton is imported. With a GPU, run that folder directly: it then takes the kernels as compiled.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

triton = pytest.importorskip("triton", reason="triton is not installed (it is for Linux)")

# Its interpreter takes arrays of one element for integers, as in the bounds of a loop.
OLD_INTERPRETER = triton.__version__.startswith("3.6.") and np.lib.NumpyVersion(np.__version__) >= "2.4.0"
pytestmark = pytest.mark.skipif(
    OLD_INTERPRETER, reason=f"triton {triton.__version__}'s interpreter fails with NumPy 2.4 and later"
)

TESTS = Path(__file__).parents[1]


def run_interpreted(marks):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", TESTS / "pytest.ini", TESTS / "engine" / "kernels", "-q", "-m", marks],
        env=os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


def test_kernels():
    run_interpreted("not slow")


@pytest.mark.slow
def test_larger_kernels():
    run_interpreted("slow")
