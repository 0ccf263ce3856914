"""Speed of the simulator: one core, one process, with metrics and KV limit.

Requests of about 1,000 + 100 tokens arrive at 50 a second, or 1,500 at once of which the first 1,000 are timed. Costs
are SLOWeave's formula and a certified 4-D table. A run of a few requests loads the compiled code first; the very
first run, with an empty cache, is a row of its own. `look-up` is one answer inside a compiled loop. Memory is the
peak that a run adds to the resident set, and the workload.

Run: python benchmarks/simulator_speed.py [--quick] [--out DIR]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from report import Row, write

import chunkfit
from chunkfit.profiler.synthetic_profile import synthetic_profile
from chunkfit.scheduler.compiled import compiled, slower_note
from chunkfit.scheduler.cost import SLOWEAVE, Cost, bound_ticks, from_table, largest_chunk
from chunkfit.scheduler.dtypes import WORKLOAD
from chunkfit.scheduler.policies import policy
from chunkfit.scheduler.serving_state import Limits
from chunkfit.scheduler.simulate import Conditions, Run, simulate

POLICIES = ("full", "fixed-256", "token-budget-512", "sarathi-edf-512", "sloweave", "slidingserve-512", "qoserve-1024")
LIMITS = Limits(max_running=128, pages=16_384, max_chunk_tokens=2048)


def requests_at(count: int, rate_per_s: float, seed: int = 0) -> NDArray[Any]:
    """Poisson arrivals; log-normal prompts with mean 1,000 and outputs with mean 100, targets of 1 s and 25 ms."""
    rng = np.random.default_rng(seed)
    requests = np.zeros(count, WORKLOAD)
    requests["arrival_ms"] = np.cumsum(rng.exponential(1000 / rate_per_s, count))
    requests["prompt_tokens"] = np.clip(rng.lognormal(np.log(1000) - 0.125, 0.5, count), 1, 4096)
    requests["output_tokens"] = np.clip(rng.lognormal(np.log(100) - 0.125, 0.5, count), 1, 1000)
    requests["output_estimate"] = -1
    requests["ttft_ms"], requests["tpot_ms"], requests["ttlt_ms"] = 1000.0, 25.0, np.nan
    return requests


def at_once(count: int, seed: int = 1) -> NDArray[Any]:
    """As many at 0 ms, with targets from lost to far away."""
    requests = requests_at(count, 50.0, seed)
    requests["arrival_ms"] = 0.0
    requests["ttft_ms"] = np.random.default_rng(seed).uniform(0, 40_000, count)
    return requests


def timed(requests: NDArray[Any], name: str, cost: Cost, until_ms: float | None = None) -> tuple[float, Run]:
    """(seconds, the run)"""
    simulate(requests[:5], policy(name), cost, cost, LIMITS)
    start = time.perf_counter()
    run = simulate(requests, policy(name), cost, cost, LIMITS, Conditions(until_ms=until_ms))
    return time.perf_counter() - start, run


def speed_rows(title: str, requests: NDArray[Any], cost: Cost) -> list[Row]:
    rows = []
    for name in POLICIES:
        seconds, run = timed(requests, name, cost)
        rows.append(Row(f"{title}, {name}: iterations", run.iterations / seconds, "1/s", run.iterations))
        rows.append(Row(f"{title}, {name}: requests", len(requests) / seconds, "1/s", len(requests)))
    return rows


def overload_rows(cost: Cost, most: int, least: int, repeats: int) -> list[Row]:
    """Iterations while the queue falls from `most` to `least`; the median of some runs, with their range."""
    rows = []
    requests = at_once(most)
    for name in POLICIES:
        log = simulate(requests, policy(name), cost, cost, LIMITS, log=True).log
        until = float(log["start_ms"][np.argmax(log["queued"] < least)])
        runs = [timed(requests, name, cost, until) for _ in range(repeats)]
        speeds = sorted(run.iterations / seconds for seconds, run in runs)
        title = f"{most:,} to {least:,} waiting, formula, {name}: iterations"
        rows.append(Row(title, speeds[repeats // 2], "1/s", runs[0][1].iterations, speeds[0], speeds[-1]))
    return rows


@compiled
def many_largest(cost: Cost, count: int) -> int:
    total = 0
    for i in range(count):
        k = 100 + i % 700
        total += largest_chunk(cost, 1 + i % 100, k, k, i % 4096, (20 << 14) + i % 200_000, 2048, 1, 1)
    return total


@compiled
def many_bounds(cost: Cost, count: int) -> int:
    total = 0
    for i in range(count):
        k = 100 + i % 700
        total += bound_ticks(cost, 1 + i % 100, k, k, 1 + i % 2000, i % 4096, 1)
    return total


def look_up_rows(costs: dict[str, Cost], count: int) -> list[Row]:
    rows = []
    for title, cost in costs.items():
        for what, ask in (("bound", many_bounds), ("largest chunk", many_largest)):
            ask(cost, 10)
            start = time.perf_counter()
            ask(cost, count)
            rows.append(Row(f"look-up, {title}: {what}", (time.perf_counter() - start) / count * 1e6, "us", count))
    return rows


def scale_rows(counts: list[int]) -> list[Row]:
    """Time and memory by requests, each in a process of its own."""
    rows = []
    for count in counts:
        seconds, added = map(float, fresh(f"print(*scaled_run({count}))").split())
        rows.append(Row(f"sloweave, {count:,} requests: time a request", seconds / count * 1e6, "us", count))
        rows.append(Row(f"sloweave, {count:,} requests: memory a request", added / count, "B", count))
    return rows


def scaled_run(count: int) -> tuple[float, int]:
    """(seconds, bytes)"""
    requests = requests_at(count, 50.0)
    timed(requests[:5], "sloweave", SLOWEAVE.cost())
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = resident_bytes("VmRSS")
    seconds, _ = timed(requests, "sloweave", SLOWEAVE.cost())
    return seconds, resident_bytes("VmHWM") - before + requests.nbytes


def resident_bytes(field: str) -> int:
    """Of this process, on Linux: VmRSS now, VmHWM at its peak."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(field + ":")[1].split()[0]) * 1024


def fresh(code: str, **environment: str) -> str:
    """What `code` prints, over this module, in a new process."""
    start = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\nfrom simulator_speed import *\n"
    done = subprocess.run(
        [sys.executable, "-c", start + code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | environment,
    )
    return done.stdout.strip()


def first_run_row() -> Row:
    """One run of a few requests with nothing compiled yet."""
    code = "t = time.perf_counter(); simulate(requests_at(5, 50.0), policy('sloweave'), *[SLOWEAVE.cost()] * 2, LIMITS)"
    with tempfile.TemporaryDirectory() as empty:
        seconds = float(fresh(code + "; print(time.perf_counter() - t)", NUMBA_CACHE_DIR=empty))
    return Row("first run of all, compilation included", seconds, "s", 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer requests and no first compilation; under 50 s")
    parser.add_argument("--out", type=Path, help="folder of the results, by default that of this machine")
    arguments = parser.parse_args()
    quick = arguments.quick
    note = slower_note()
    if note:
        print(note)
    table = from_table(chunkfit.fit(synthetic_profile(seed=0), fitter="scene_experts"))
    costs = {"formula": SLOWEAVE.cost(), "4-D table": table}
    count = 10_000 if quick else 100_000
    rows = speed_rows("50/s, formula", requests_at(count, 50.0), costs["formula"])
    # The table is of a slower device: its own capacity is near 10 requests a second.
    rows += speed_rows("8/s, 4-D table", requests_at(count // 10, 8.0), table)
    rows += overload_rows(costs["formula"], 1500, 500, 3 if quick else 9)
    rows += look_up_rows(costs, 100_000 if quick else 1_000_000)
    rows += scale_rows([10_000, 50_000] if quick else [10_000, 100_000, 1_000_000])
    if not quick:
        rows.append(first_run_row())
    write("simulator_speed", rows, ("chunkfit", "numpy", "numba"), folder=arguments.out)


if __name__ == "__main__":
    main()
