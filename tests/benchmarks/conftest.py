"""The benchmarks are programs beside the package, not in it."""

import sys
from pathlib import Path

import chunkfit

BENCHMARKS = Path(chunkfit.__file__).parent / "benchmarks"
if str(BENCHMARKS) not in sys.path:
    sys.path.insert(0, str(BENCHMARKS))
