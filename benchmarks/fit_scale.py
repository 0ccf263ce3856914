"""What a fit takes, by the number of samples: seconds and peak memory, each size and fitter in a process of its own.

The profiles are logs of the synthetic device as `chunkfit ingest` makes them, cut 60, 20, 20 into fit, calibrate and
test: batches that hardly come twice, by time, and the largest size once more as repeats of 5,000 batches, by points.
`seconds` is reading the file, fitting and writing the table; `peak` the largest resident set of that process
(ru_maxrss), Python and its libraries included. What the table is worth stands beside, against the known truth in the
log's own session, which is all that a log certifies: a fit that got faster by reading less would show there.

Run: python benchmarks/fit_scale.py [--quick] [--out DIR]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from report import Row, write

from chunkfit.fitters.fit import fit
from chunkfit.profiler.devices import truth
from chunkfit.profiler.devices.synthetic import FINGERPRINT
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.importers.samples import LoggedIteration, Split
from chunkfit.profiler.importers.sessions import DEFAULT_SHARES, columns_of, session_metas
from chunkfit.profiler.meta import ImportedFrom, ProfileMeta
from chunkfit.profiler.profile import Profile
from chunkfit.profiler.sampling import AXES, candidates, inside
from chunkfit.tables.grid import Points

SIZES = (10_000, 100_000, 1_000_000)
QUICK = (3_000,)
REPEATED = 5_000  # batches
FITTERS = ("auto", "scene_experts")  # the command's default, and the one that the library's `fit` takes
SEED, SESSION = 0, "log"
MIB = 2.0**20


def batches(count: int, seed: int) -> Points:
    """`count` batches of the synthetic domain, each drawn by itself; the same ones may come twice."""
    rng = np.random.default_rng(seed)
    parts = []
    for scene in AXES:
        points = candidates(SYNTHETIC_DOMAIN, scene, (), rng.random((2 * count, len(AXES[scene]) + 2)))
        parts.append(points[inside(SYNTHETIC_DOMAIN, points)][: -(-count // len(AXES))])
    return rng.permutation(np.concatenate(parts))[:count]


def log_of(samples: int, repeated: int | None = None) -> Profile:
    """The synthetic device's log of so many iterations as a profile: cut by time, by points where `repeated` batches
    are all that it ran."""
    split: Split = "points" if repeated else "time"
    points = batches(repeated or samples, SEED)
    if repeated:
        points = points[np.random.default_rng(SEED).integers(0, repeated, samples)]
    latency_ms = truth.sample_ms(points, np.arange(samples), SEED, SESSION).tolist()
    rows = [LoggedIteration.of_totals(*point, ms) for point, ms in zip(points.tolist(), latency_ms, strict=True)]
    columns = columns_of(rows, split, DEFAULT_SHARES, SEED)
    imported = ImportedFrom(
        format="iterations",
        file="synthetic",
        sha256="",
        split=split,
        shares_percent=DEFAULT_SHARES,
        stated={},
        left_out={},
        unequal_contexts=0,
        several_chunks=0,
    )
    meta = ProfileMeta(
        fingerprint=FINGERPRINT,
        aggregation="iteration",
        domain=SYNTHETIC_DOMAIN,
        step_totals=(),
        seed=SEED,
        plan_sha256="",
        sessions=session_metas(columns),
        clipped_fraction=0.0,
        imported=imported,
    )
    return Profile(meta, columns, "synthetic log")


def measured(profile: Path, fitter: str) -> dict[str, Any]:
    """Seconds, peak bytes and what the table is worth; for a process of its own."""
    start = time.perf_counter()
    table = fit(Profile.load(profile), fitter=fitter)
    table.save(profile.with_suffix(".json"))
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    asked = batches(6_000, seed=10_000)
    expected, bound = table.read(asked)
    here = truth.session_factor(SEED, SESSION)
    error = np.abs(expected / (here * truth.median_ms(asked)) - 1)
    return {
        "fitter": table.document.fitter.name,
        "seconds": seconds,
        "peak": peak,
        "median": 100 * float(np.median(error)),
        "p99": 100 * float(np.quantile(error, 0.99)),
        "coverage": 100 * float(truth.coverage(asked, bound, here).mean()),
    }


def scale_rows(samples: int, repeated: int | None, fitter: str, folder: Path) -> list[Row]:
    """One fit of one log; the log is made by another process, once."""
    profile = folder / f"{samples}-{repeated}.parquet"
    if not profile.exists():
        fresh(f"log_of({samples}, {repeated}).save({str(profile)!r})")
    found = json.loads(fresh(f"print(json.dumps(measured(Path({str(profile)!r}), {fitter!r})))"))
    title = f"{samples:,} samples" + (f" of {repeated:,} batches" if repeated else "") + f", {fitter}"
    title += f" ({found['fitter']})" if fitter != found["fitter"] else ""
    return [
        Row(f"{title}: seconds", found["seconds"], "s", samples),
        Row(f"{title}: peak", found["peak"] / MIB, "MiB", samples),
        Row(f"{title}: median error", found["median"], "%", samples),
        Row(f"{title}: P99 error", found["p99"], "%", samples),
        Row(f"{title}: true coverage", found["coverage"], "%", samples),
    ]


def fresh(code: str) -> str:
    """What `code` prints, over this module, in a new process."""
    start = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\nfrom fit_scale import *\n"
    done = subprocess.run([sys.executable, "-c", start + code], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="3,000 samples; under 50 s")
    parser.add_argument("--out", type=Path, help="folder of the results, by default that of this machine")
    arguments = parser.parse_args()
    logs: list[tuple[int, int | None]] = [(samples, None) for samples in (QUICK if arguments.quick else SIZES)]
    if not arguments.quick:
        logs.append((SIZES[-1], REPEATED))
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for log in logs for fitter in FITTERS for row in scale_rows(*log, fitter, Path(folder))]
    write("fit_scale", rows, ("chunkfit", "numpy", "scipy", "lightgbm"), folder=arguments.out)


if __name__ == "__main__":
    main()
