"""Are fit points that are chosen in rounds worth more than drawn ones, where difficulty is uneven?

Two kinds of device: one with a surprise step (a formula whose steps no plan announces), and replays of public grids,
where points are picked from what was measured. At each number of points, for many seeds: the P99 error of the table at
held-out points, chosen over drawn; and how many drawn points have the P99 error of the chosen ones.

    python benchmarks/chosen_points.py --data DIR     (DIR: the public measurements)
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from public.sets import load
from report import Row, write

from chunkfit.fitters.build import build_chosen, with_found_steps
from chunkfit.fitters.estimators.registry import ESTIMATORS
from chunkfit.fitters.noise import Proportional
from chunkfit.fitters.predictor import TablePredictor
from chunkfit.fitters.rows import Rows
from chunkfit.profiler.choose import cell_errors, cell_weights, choose, fresh_points
from chunkfit.profiler.devices import truth
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.rounds import round_points, start_points
from chunkfit.profiler.sampling import draw
from chunkfit.profiler.traffic import Cells
from chunkfit.tables.domain import Domain
from chunkfit.tables.grid import scene_of

PLANTED = (129, 257, 513)
RISE = 0.08
REPEATS = 3

Floats = NDArray[np.float64]
Points = NDArray[np.int64]


def stepped_ms(points: Points) -> Floats:
    """reference-v1 with three steps of 8% in n + c that no plan knows."""
    total = points[:, 0] + points[:, 2]
    ladder = np.maximum(8.0, 0.045 * total)
    rest = truth.base_ms(points) - ladder * np.where(total >= 129, 1.08, 1.0)
    return ladder * np.prod([np.where(total >= step, 1 + RISE, 1.0) for step in PLANTED], axis=0) + rest


@dataclass(frozen=True)
class Replay:
    """A device: where it may be measured, what a median there is, and what its tables are judged by."""

    name: str
    domain: Domain
    fitter: str
    budgets: tuple[int, ...]
    draw: Callable[[int, int], Points]  # count, seed
    fresh: Callable[[Cells, np.random.Generator, int], Points]  # candidates of a round; seed
    measure: Callable[[Points, int], Floats]  # medians; seed
    held_out: Callable[[int], tuple[Points, Floats]]
    finds_steps: bool


def stepped() -> Replay:
    def measure(points: Points, seed: int) -> Floats:
        rng = np.random.default_rng([seed, 7])
        latency = stepped_ms(points) * np.exp(0.005 * rng.standard_normal(len(points)))
        noise = np.exp(0.01 * rng.standard_normal((REPEATS, len(points))))
        tail = np.where(rng.random(noise.shape) < 0.02, 1 + rng.exponential(0.08, noise.shape), 1.0)
        return np.median(latency * noise * tail, axis=0)

    def held_out(seed: int) -> tuple[Points, Floats]:
        points = draw(SYNTHETIC_DOMAIN, 3000, (), 10_000 + seed).points
        return points, stepped_ms(points)

    return Replay(
        "surprise steps",
        SYNTHETIC_DOMAIN,
        "scene_experts",
        (150, 300, 600),
        lambda count, seed: draw(SYNTHETIC_DOMAIN, count, (), seed).points,
        lambda cells, rng, seed: fresh_points(cells, (), rng),
        measure,
        held_out,
        True,
    )


def grid(name: str, rows: Rows, domain: Domain, budgets: tuple[int, ...]) -> Replay:
    """Points of a published grid; a fifth of them, another one for each seed, is held out."""
    points, index = np.unique(rows.points, axis=0, return_inverse=True)
    order = np.argsort(index.ravel(), kind="stable")
    parts = np.split(rows.latency_ms[order], np.flatnonzero(np.diff(index.ravel()[order])) + 1)
    medians = np.asarray([np.median(part) for part in parts])
    known = {tuple(point): ms for point, ms in zip(points.tolist(), medians.tolist(), strict=True)}

    def split(seed: int) -> tuple[Points, Points]:
        order = np.random.default_rng([seed, 3]).permutation(len(points))
        cut = len(points) // 5
        return points[order[cut:]], points[order[:cut]]

    def measure(asked: Points, seed: int) -> Floats:
        return np.asarray([known[tuple(point)] for point in asked.tolist()])

    def held_out(seed: int) -> tuple[Points, Floats]:
        held = split(seed)[1]
        return held, measure(held, seed)

    return Replay(
        name,
        domain,
        "hybrid",
        budgets,
        lambda count, seed: split(seed)[0][:count],
        lambda cells, rng, seed: split(seed)[0],
        measure,
        held_out,
        False,
    )


def chosen(device: Replay, budget: int, seed: int) -> Points:
    """`budget` points: a third drawn, the others in rounds, as the adaptive plan does."""
    points = device.draw(start_points(budget), seed)
    cells = Cells(device.domain)
    predictor = TablePredictor(device.domain, ())
    round_ = 0
    while len(points) < budget:
        round_ += 1
        fresh = device.fresh(cells, np.random.default_rng([seed, round_]), seed)
        weight = cell_weights(cells, fresh, None)
        errors = cell_errors(cells, weight, points, device.measure(points, seed), predictor, fresh)
        taken = {tuple(point) for point in points.tolist()}
        added = choose(cells, errors, fresh, round_points(len(points), budget - len(points)), taken)
        if not added:
            break
        points = np.concatenate([points, np.asarray(added)])
    return points


def p99_error(device: Replay, points: Points, seed: int) -> float:
    ids = np.arange(len(points))
    rows = Rows(points, device.measure(points, seed), ids, np.zeros(len(points), dtype=np.bool_))
    steps = with_found_steps(rows, device.domain, ())[0] if device.finds_steps else ()
    built = build_chosen(rows, device.domain, steps, ESTIMATORS[device.fitter], Proportional())
    held, truth_ms = device.held_out(seed)
    here = np.isin(scene_of(held), [scene.value for scene in rows.scenes()])
    expected = built.expected_and_scale(held[here])[0]
    return float(np.quantile(np.abs(expected / truth_ms[here] - 1), 0.99))


def trial(device: Replay, seeds: int, deadline: float) -> list[Row]:
    """Rows of one device: errors at each budget, their ratio, and the points saved."""
    errors: dict[tuple[str, int], list[float]] = {}
    done = 0  # seeds
    for seed in range(seeds):
        if time.monotonic() > deadline:
            break
        for budget in device.budgets:
            for kind, points in (
                ("drawn", device.draw(budget, seed)),
                ("chosen", chosen(device, budget, seed)),
            ):
                errors.setdefault((kind, budget), []).append(p99_error(device, points, seed))
        done += 1
        print(f"{device.name}: seed {seed}", file=sys.stderr, flush=True)
    rows = []
    rng = np.random.default_rng(0)
    drawn = np.log(np.asarray([errors["drawn", budget] for budget in device.budgets]))  # (budgets, seeds)
    for at, budget in enumerate(device.budgets):
        ratio = np.log(np.asarray(errors["chosen", budget])) - drawn[at]
        mean, error = float(ratio.mean()), float(ratio.std(ddof=1) / np.sqrt(len(ratio)))
        name = f"{device.name}, {budget} points"
        means = {kind: 100 * float(np.mean(errors[kind, budget])) for kind in ("drawn", "chosen")}
        rows += [Row(f"{name}, {kind}: mean P99 error", value, "%", done) for kind, value in means.items()]
        low, high = (float(np.exp(mean + sign * 1.96 * error)) for sign in (-1, 1))
        rows.append(Row(f"{name}: P99 error chosen / drawn (95% interval)", float(np.exp(mean)), "", done, low, high))
        saved = [
            100
            * points_saved(device.budgets, drawn[:, pick].mean(axis=1), float((drawn[at] + ratio)[pick].mean()), budget)
            for pick in (np.arange(done), *rng.integers(done, size=(400, done)))
        ]
        low, high = (float(np.quantile(saved[1:], share)) for share in (0.025, 0.975))
        rows.append(Row(f"{name}: points saved at equal P99 error (95% of resamples)", saved[0], "%", done, low, high))
    return rows


def points_saved(budgets: tuple[int, ...], log_errors: Floats, reached: float, budget: int) -> float:
    """1 - budget / (drawn points with the same P99 error), by a line through log error over log points."""
    slope, level = np.polyfit(np.log(budgets), log_errors, 1)
    return 1 - budget / float(np.exp((reached - level) / slope)) if slope < 0 else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the public measurements")
    parser.add_argument("--out", type=Path, help="folder of the result; default: benchmarks/results")
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--minutes", type=float, default=6.0, help="of each device")
    parser.add_argument("--quick", action="store_true", help="the formula alone, two seeds, few points")
    arguments = parser.parse_args()
    if arguments.quick:
        device = replace(stepped(), budgets=(90, 150))
        write("chosen_points", trial(device, 2, time.monotonic() + 3600), ("numpy", "scipy"), folder=arguments.out)
        return
    sets = {data.name: data for data in load(arguments.data)}
    devices = [
        stepped(),
        grid("rucnyz grid", sets["rucnyz-results2"].rows, sets["rucnyz-results2"].domain, (80, 120, 180)),
        grid("attention grid", sets["attention"].rows, sets["attention"].domain, (150, 300, 600)),
    ]
    rows: list[Row] = []
    for device in devices:
        rows += trial(device, arguments.seeds, time.monotonic() + 60 * arguments.minutes)
    write("chosen_points", rows, ("numpy", "scipy"), folder=arguments.out)


if __name__ == "__main__":
    main()
