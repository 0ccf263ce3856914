"""How long is one decision: `largest_chunk` beside what a scheduler could use instead.

One run, one thread, one process; every method answers the same random states from the same data: the largest
chunk (a multiple of 16) whose time is within the budget. The peers are asked in their best form: one
vectorised prediction over all candidate chunks, then a search in the answers. `bisect` is the floor: a look-up
in a ready list of times for one state, which no scheduler has.

Run: python benchmarks/decision_latency.py [--quick]
"""

from __future__ import annotations

import argparse
import gc
import time
from bisect import bisect_right
from collections.abc import Callable

import lightgbm
import numpy as np
from report import Row, write
from scipy.interpolate import RegularGridInterpolator
from sklearn.ensemble import RandomForestRegressor
from threadpoolctl import threadpool_limits

import chunkfit
from chunkfit.fitters.rows import rows_of
from chunkfit.profiler.synthetic_profile import synthetic_profile
from chunkfit.tables import CostTable, Scene
from chunkfit.tables.grid import node_points

ALIGN = 16
MAX_CHUNK = 2048
CANDIDATES = np.arange(ALIGN, MAX_CHUNK + 1, ALIGN)
State = tuple[int, int, int, float]
Decide = Callable[[int, int, int, float], int]


def states(table: CostTable, count: int) -> list[State]:
    """Random (n, k, u, budget_ms) over the domain, budgets from too tight to loose."""
    rng = np.random.default_rng(0)
    found = []
    while len(found) < count:
        n = int(np.exp(rng.uniform(0, np.log(table.domain.max_decodes + 1))))
        k = int(np.exp(rng.uniform(np.log(16), np.log(table.domain.max_context_tokens))))
        u = int(rng.choice([0, int(np.exp(rng.uniform(3, np.log(table.domain.max_prefix_tokens))))]))
        if table.domain.refusal(n, k, MAX_CHUNK, u) is None:
            found.append((n, k, u, float(np.exp(rng.uniform(np.log(8), np.log(150))))))
    return found


def pick(times: np.ndarray, budget_ms: float) -> int:
    """Largest candidate before the first one over the budget."""
    over = times > budget_ms
    first = int(over.argmax()) if over.any() else len(over)
    return int(CANDIDATES[first - 1]) if first else 0


def by_prediction(predict: Callable[[np.ndarray], np.ndarray]) -> Decide:
    """A method that predicts rows of (n, k, c, u): all candidates at once."""
    rows = np.empty((len(CANDIDATES), 4))
    rows[:, 2] = CANDIDATES

    def decide(n: int, k: int, u: int, budget_ms: float) -> int:
        rows[:, 0], rows[:, 1], rows[:, 3] = n, k, u
        return pick(predict(rows), budget_ms)

    return decide


def methods(table: CostTable, train: chunkfit.Profile) -> dict[str, Decide]:
    mixed = rows_of(train, "fit").scene(Scene.MIXED)
    forest = RandomForestRegressor(100, random_state=0, n_jobs=1).fit(mixed.points, mixed.latency_ms)
    booster = lightgbm.train(
        {"objective": "regression", "num_threads": 1, "verbosity": -1, "monotone_constraints": [1, 1, 1, 1]},
        lightgbm.Dataset(mixed.points, mixed.latency_ms),
        num_boost_round=200,
    )
    axes = table.arrays.axes
    knots = (axes.decodes, axes.context_tokens, axes.prefix_tokens, axes.chunk_tokens)
    values = table.arrays.read(node_points(axes, Scene.MIXED))[1].reshape([len(axis) for axis in knots])
    grid = RegularGridInterpolator(knots, values, bounds_error=False, fill_value=None)
    ready = sorted(np.random.default_rng(1).uniform(5, 200, len(CANDIDATES)).tolist())
    return {
        "chunkfit largest_chunk": lambda n, k, u, budget: table.largest_chunk(
            decodes=n, context_tokens=k, prefix_tokens=u, budget_ms=budget, max_chunk=MAX_CHUNK, align=ALIGN
        ),
        "random forest (100 trees)": by_prediction(forest.predict),
        "LightGBM (200 rounds)": by_prediction(lambda rows: booster.predict(rows, num_threads=1)),
        "SciPy grid interpolation": by_prediction(lambda rows: grid(rows[:, [0, 1, 3, 2]])),
        "bare bisect of a ready list": lambda n, k, u, budget: bisect_right(ready, budget),
    }


def timings_us(decide: Decide, asked: list[State]) -> np.ndarray:
    """Microseconds of each call, after a warm-up."""
    for state in asked[:20]:
        decide(*state)
    taken = np.empty(len(asked))
    clock = time.perf_counter_ns
    gc.collect()
    gc.disable()
    for i, (n, k, u, budget) in enumerate(asked):
        start = clock()
        decide(n, k, u, budget)
        taken[i] = clock() - start
    gc.enable()
    return taken / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer calls; under 50 s")
    calls = 3_000 if parser.parse_args().quick else 20_000
    profile = synthetic_profile(seed=0)
    table = chunkfit.fit(profile, fitter="scene_experts")
    asked = states(table, calls)
    rows = []
    for name, decide in methods(table, profile).items():
        slow = "forest" in name
        with threadpool_limits(1):
            taken = timings_us(decide, asked[: calls // 10] if slow else asked)
        rows.append(Row(f"{name}: median", float(np.median(taken)), "us", len(taken)))
        rows.append(Row(f"{name}: P99", float(np.quantile(taken, 0.99)), "us", len(taken)))
    write("decision_latency", rows, ("chunkfit", "numpy", "scipy", "scikit-learn", "lightgbm"))


if __name__ == "__main__":
    main()
