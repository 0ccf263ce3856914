"""What the online calibrator does when a device drifts: misses, alarms, how wide the bound gets, what it costs.

One table of the synthetic device a seed, led through the iterations of an engine on that device whose time is
multiplied by a step, a slow drift, a burst. The truth is a closed form, so bounds stand beside the ideal one, the
true 0.99 quantile. value is the mean over the seeds, low and high the least and largest of them. A miss is an
iteration above the bound that was in force when it was judged.

Closed loop: the chunk is the largest whose bound is within 25 ms, taken from the calibrator's table (or, beside it,
from the table alone), so the batches are those where the bound is low.

Run: python benchmarks/online_drift.py [--quick]
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from report import Row, write

import chunkfit
from chunkfit.fitters.online.drift import MissCusum
from chunkfit.profiler.devices import truth
from chunkfit.profiler.synthetic_profile import synthetic_iterations, synthetic_profile
from chunkfit.tables import Batch, CostTable

BUDGET_MS = 25.0
CHAINS = 500
Slower = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]
Figures = Iterator[tuple[str, float, str]]


@dataclass(frozen=True, slots=True)
class Led:
    """Per iteration: missed, bound over the table's bound, bound over the ideal one, microseconds of `observe`."""

    missed: NDArray[np.bool_]
    factor: NDArray[np.float64]
    over_ideal: NDArray[np.float64]
    observe_us: NDArray[np.float64]
    alarms: list[tuple[int, str]]


def led(table: CostTable, seed: int, count: int, slower: Slower) -> Led:
    """A fresh calibrator through `count` iterations that take slower(i, points) times the truth."""
    points, latency_ms = synthetic_iterations(seed, count)
    times = slower(np.arange(count), points)
    ideal = truth.quantile_ms(points, 0.99) * times
    bounds = table.read(points)[1]
    calibrator = chunkfit.OnlineCalibrator(table)
    missed, factor, taken = np.zeros(count, bool), np.zeros(count), np.zeros(count)
    clock = time.perf_counter_ns
    for i, (point, ms) in enumerate(zip(points.tolist(), (latency_ms * times).tolist(), strict=True)):
        batch, before = Batch.of(*point), calibrator.misses
        factor[i] = calibrator.table.bound.factor / 4096
        start = clock()
        calibrator.observe(batch, ms)
        taken[i] = (clock() - start) / 1000
        missed[i] = calibrator.misses > before
    alarms = [(event.observation, event.kind) for event in calibrator.events]
    return Led(missed, factor, bounds * factor / ideal, taken, alarms)


def steady(table: CostTable, seed: int) -> Figures:
    run = led(table, seed, 20_000, lambda i, _: np.ones(len(i)))
    points, _ = synthetic_iterations(seed, 20_000)
    yield "steady, 20,000 iterations: miss rate", 100 * run.missed.mean(), "%"
    yield (
        "steady: true miss rate of the table alone",
        100 * (1 - truth.coverage(points, table.read(points)[1])).mean(),
        "%",
    )
    yield "steady: mean bound over the table's", run.factor.mean(), "x"
    yield "steady: mean bound over the ideal", run.over_ideal.mean(), "x"
    yield "steady: alarms", len(run.alarms), ""
    yield "observe(): median", float(np.median(run.observe_us)), "us"
    yield "observe(): P99", float(np.quantile(run.observe_us, 0.99)), "us"


def step(table: CostTable, seed: int) -> Figures:
    at = 2000
    run = led(table, seed, at + 5500, lambda i, _: np.where(i >= at, 1.3, 1.0))
    after = run.missed[at:]
    rate = np.convolve(after, np.ones(100), "valid")
    yield "step of 1.3x: misses within 500 iterations", after[:500].sum(), ""
    yield "step: iterations until 100 in a row miss under 2%", int((rate < 2).argmax()), ""
    yield "step: miss rate of iterations 500 to 1,000", 100 * after[500:1000].mean(), "%"
    yield "step: miss rate of the 5,000 after 500", 100 * after[500:].mean(), "%"
    yield "step: mean bound over the ideal in those", run.over_ideal[at + 500 :].mean(), "x"
    yield "step: first alarm after", next(n for n, _ in run.alarms if n > at) - at, "iterations"


def slow_drift(table: CostTable, seed: int) -> Figures:
    run = led(table, seed, 25_000, lambda i, _: 1 + 0.1 * np.minimum(i / 20_000, 1))
    yield "drift of 10% over 20,000: miss rate during it", 100 * run.missed[:20_000].mean(), "%"
    yield "drift: miss rate of the 5,000 after", 100 * run.missed[20_000:].mean(), "%"
    yield "drift: mean bound over the ideal", run.over_ideal.mean(), "x"
    yield "drift: first alarm after", next((n for n, _ in run.alarms), 25_000), "iterations"


def burst(table: CostTable, seed: int) -> Figures:
    at = 2000
    run = led(table, seed, at + 6000, lambda i, _: np.where((i >= at) & (i < at + 50), 10.0, 1.0))
    wide = run.factor[at + 50 :] / run.factor[at - 1]
    yield "burst of 50 of 10x: largest bound over the table's", run.factor.max(), "x"
    yield "burst: iterations after it until the bound is within 10% of the one before", int((wide < 1.10).argmax()), ""
    yield "burst: until it is within 2%", int((wide < 1.02).argmax()), ""
    yield "burst: miss rate of the 5,950 after", 100 * run.missed[at + 50 :].mean(), "%"


def one_scene(table: CostTable, seed: int) -> Figures:
    run = led(table, seed, 12_000, lambda i, p: np.where((i >= 2000) & (p[:, 2] == 0), 1.3, 1.0))
    yield "decode alone 1.3x: miss rate after 500", 100 * run.missed[2500:].mean(), "%"
    yield "decode alone: mean bound over the ideal", run.over_ideal[2500:].mean(), "x"


def closed_loop(table: CostTable, seed: int) -> Figures:
    """20,000 decisions each way; from the 5,000th on the device takes 1.15 times the truth."""
    points, _ = synthetic_iterations(seed, 150_000)
    fits = (points[:, 0] > 0) & (points[:, 2] > 0) & (table.read(points)[1] < 2 * BUDGET_MS)
    states = points[fits][:20_000]
    noise = truth.sample_ms(states, np.arange(len(states)), seed, "closed") / truth.node_ms(states)
    noise[5000:] *= 1.15
    for name in ("table alone", "calibrated"):
        calibrator = chunkfit.OnlineCalibrator(table)
        missed, tokens = np.zeros(len(states), bool), 0
        for i, (n, k, _, u) in enumerate(states.tolist()):
            costs = table if name == "table alone" else calibrator.table
            c = costs.largest_chunk(decodes=n, context_tokens=k, prefix_tokens=u, budget_ms=BUDGET_MS, max_chunk=2048)
            batch = Batch.of(n, k, c, u)
            ms = float(truth.node_ms(np.asarray([batch.point()]))[0] * noise[i])
            missed[i] = ms > costs.bound_ms(batch)
            tokens += c
            calibrator.observe(batch, ms)
        yield f"closed loop, {name}: miss rate of the first 5,000", 100 * missed[:5000].mean(), "%"
        yield f"closed loop, {name}: miss rate of the 15,000 after, 1.15x slower", 100 * missed[5000:].mean(), "%"
        yield f"closed loop, {name}: mean chunk", tokens / len(states), "tokens"


def run_length(rate: float) -> float:
    """Mean iterations until the miss CUSUM alarms at a constant miss rate, from a miss to the next."""
    rng = np.random.default_rng(0)
    cusum = MissCusum(0.01, 0.03)
    cusum.add(True)
    up, down = cusum.value, np.log(0.97 / 0.99)
    value, spent, alive = np.zeros(CHAINS), np.zeros(CHAINS), np.ones(CHAINS, bool)
    while alive.mean() > 0.05:  # the tail is geometric: what is left has the same mean again
        waits = rng.geometric(rate, CHAINS)
        value = np.maximum(0.0, value + down * (waits - 1)) + up
        spent += waits * alive
        alive &= value <= MissCusum.THRESHOLD
    return float(spent.sum() / (CHAINS * (1 - alive.mean())))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two seeds; under 50 s")
    seeds = range(2 if parser.parse_args().quick else 10)
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for seed in seeds:
        table = chunkfit.fit(synthetic_profile(seed), fitter="scene_experts")
        for scenario in (steady, step, slow_drift, burst, one_scene, closed_loop):
            for name, value, unit in scenario(table, seed):
                found[name, unit].append(float(value))
    rows = [Row(name, float(np.mean(v)), unit, len(v), min(v), max(v)) for (name, unit), v in found.items()]
    rows += [
        Row(f"miss CUSUM: mean iterations to an alarm at {rate:.0%} misses", run_length(rate), "", CHAINS)
        for rate in (0.01, 0.03, 0.1)
    ]
    write("online_drift", rows, ("chunkfit", "numpy", "scipy"))


if __name__ == "__main__":
    main()
