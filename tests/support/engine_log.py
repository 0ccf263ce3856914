"""Somebody's log of a small engine: no plan, no sentinel, no fingerprint."""

from pathlib import Path

import numpy as np

from chunkfit.profiler.importers.samples import ReadOptions

COLUMNS = ReadOptions({"n": "n", "k": "k", "c": "c", "u": "0", "latency": "ms"}, "ms")


def write_engine_log(path: Path) -> Path:
    """900 iterations as CSV: 2 ms, decodes and chunk tokens in proportion, 1% noise."""
    rng = np.random.default_rng(0)
    n, k, c = rng.integers(1, 17, 900), rng.integers(16, 257, 900), rng.choice([0, 16, 32, 64], 900)
    ms = (2 + 0.02 * n + 0.0001 * n * k + 0.03 * c) * rng.lognormal(0, 0.01, 900)
    lines = [f"{','.join(map(str, row))}\n" for row in zip(n, k, c, ms, strict=True)]
    path.write_text("n,k,c,ms\n" + "".join(lines))
    return path
